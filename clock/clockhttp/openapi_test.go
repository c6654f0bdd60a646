package clockhttp

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

func TestContractIsValid(t *testing.T) {
	if err := contract().Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestContractListsExactlyTheRoutes compares method, path and name of the server's routes and the contract's operations.
func TestContractListsExactlyTheRoutes(t *testing.T) {
	var handled, documented []string
	s := &Server{}
	for _, r := range s.routes(prometheus.NewRegistry()) {
		path := strings.NewReplacer(":application", "{application}", "/*", "/{business_id}", ":message_id", "{message_id}").Replace(r.path)
		if r.action != "" {
			path += "/" + r.action
		}
		handled = append(handled, r.method+" "+path+" "+r.name)
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
	h := start(t)
	r := h.expect(200, "", "GET", "/openapi.yaml", "")
	if !bytes.Equal(r.body, openAPI) {
		t.Error("the served document differs from openapi.yaml")
	}
}

// TestContractNamesEveryCode makes sure that a new code is also documented.
func TestContractNamesEveryCode(t *testing.T) {
	for _, code := range []string{
		codeNotJSON, codeInvalidPath, codeUnsupportedMediaType, codeBodyTooLarge, codeBatchTooLarge,
		codeIncompleteBody, codeRequestTimeout, codeDuplicateField, codeUnknownParameter, codeInvalidCondition, codeInvalidCursor,
		codeRingsElsewhere, codeInternal, codeLineTooLong, codeMethodNotAllowed, codeUnknownPath, codeUnexpectedBody, codeClientLeft, codeCrossSite, codeUnknownHost,
		clock.CodeUnknownRing, clock.CodeStaleRing, clock.CodeNotDead, clock.CodeUnknownAlarm, clock.CodeAlreadyRung, clock.CodeRingInDoubt,
	} {
		if !bytes.Contains(openAPI, []byte(code)) {
			t.Errorf("openapi.yaml does not mention %s", code)
		}
	}
}
