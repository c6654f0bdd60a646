package clockhttp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

func TestContractIsValid(t *testing.T) {
	t.Parallel()
	if err := contract().Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestContractListsExactlyTheRoutes compares method, path and name of the server's routes and the contract's
// operations.
func TestContractListsExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	var handled, documented []string
	s := &Server{}
	for _, r := range s.routes(prometheus.NewRegistry()) {
		handled = append(handled, r.pattern()+" "+r.name)
	}
	for path, item := range contract().Paths.Map() {
		for method, op := range item.Operations() {
			documented = append(documented, method+" "+path+" "+op.OperationID)
		}
	}
	slices.Sort(handled)
	slices.Sort(documented)
	if !slices.Equal(handled, documented) {
		t.Errorf("handled:\n%s\ndocumented:\n%s", strings.Join(handled, "\n"), strings.Join(documented, "\n"))
	}
}

func TestContractIsServed(t *testing.T) {
	t.Parallel()
	h := start(t)
	for path, want := range map[string][]byte{"/openapi.yaml": openAPI, "/openapi-3.0.yaml": openAPI30} {
		if r := h.expect(200, "", "GET", path, ""); !bytes.Equal(r.body, want) {
			t.Errorf("the document at %s differs from the file", path)
		}
	}
}

// TestContractInOpenAPI30IsValidAndComplete validates the form for generators as OpenAPI 3.0, and compares its
// operations.
func TestContractInOpenAPI30IsValidAndComplete(t *testing.T) {
	t.Parallel()
	flat, err := openapi3.NewLoader().LoadFromData(openAPI30)
	if err != nil {
		t.Fatal(err)
	}
	if err := flat.Validate(t.Context()); err != nil || !strings.HasPrefix(flat.OpenAPI, "3.0.") {
		t.Errorf("%s: %v", flat.OpenAPI, err)
	}
	operations := func(doc *openapi3.T) (all []string) {
		for path, item := range doc.Paths.Map() {
			for method, op := range item.Operations() {
				all = append(all,
					fmt.Sprint(method, " ", path, " ", op.OperationID, " ",
						slices.Sorted(maps.Keys(op.Responses.Map()))))
			}
		}
		slices.Sort(all)
		return all
	}
	if got, want := operations(flat), operations(contract()); !slices.Equal(got, want) {
		t.Errorf("operations:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAlarmsMatchTheContractInOpenAPI30 has an alarm with a null in each member that may be null, and one without.
func TestAlarmsMatchTheContractInOpenAPI30(t *testing.T) {
	t.Parallel()
	flat, err := openapi3.NewLoader().LoadFromData(openAPI30)
	if err != nil {
		t.Fatal(err)
	}
	alarm := flat.Components.Schemas["Alarm"].Value
	alarm.Required = slices.DeleteFunc(alarm.Required, func(name string) bool { return name == "answer" })
	h := start(t)
	for _, body := range []string{`{"delay":"1h"}`, `{"delay":"1h","latest_ring_at":"2090-01-31T18:30:00Z","payload":[1],"ack_timeout":"1m","retry":{"limit":3}}`} {
		r := h.expect(201, "", "PUT", "/v1/applications/shop/alarms/"+fmt.Sprint(len(body)), body)
		var v map[string]any
		if err := json.Unmarshal(r.body, &v); err != nil || v["business_id"] == nil {
			t.Fatalf("%s: %v", r.body, err)
		}
		if v["answer"] != nil {
			t.Errorf("the alarm has the answer %v", v["answer"])
		}
		delete(v, "answer") // a nullable enum; see the description of the document
		if err := alarm.VisitJSON(v); err != nil {
			t.Error(err)
		}
	}
}

// TestContractNamesEveryCode makes sure that a new code is also documented.
func TestContractNamesEveryCode(t *testing.T) {
	t.Parallel()
	for _, code := range []string{
		codeNotJSON, codeInvalidPath, codeUnsupportedMediaType, codeBodyTooLarge, clock.CodeBatchTooLarge,
		codeIncompleteBody, codeRequestTimeout, codeDuplicateField, codeUnknownParameter, codeInvalidCondition,
		clock.CodeInvalidCursor,
		codeRingsElsewhere, front.CodeInternal, codeLineTooLong, codeMethodNotAllowed, codeUnknownPath, codeUnexpectedBody,
		codeClientLeft, front.CodeCrossSite, front.CodeUnknownHost, clock.CodeUnauthenticated, clock.CodeForbidden,
		clock.CodeRateLimited,
		clock.CodeUnknownRing, clock.CodeStaleRing, clock.CodeNotDead, clock.CodeRingsOnce, clock.CodeUnknownAlarm,
		clock.CodeAlreadyRung, clock.CodeRingInDoubt,
	} {
		if !bytes.Contains(openAPI, []byte(code)) {
			t.Errorf("openapi.yaml does not mention %s", code)
		}
	}
}
