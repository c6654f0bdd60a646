package clockgrpc_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc/codes"

	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

func TestBatchTakesEffectInOrder(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		faulty := alarm(id+" faulty", time.Hour)
		faulty.Priority = 10
		absent := alarm(id, time.Hour)
		absent.If = clockdv1.Condition_CONDITION_ABSENT
		response := must(t, c, "Batch", &clockdv1.BatchRequest{
			Application: "shop",
			Set: []*clockdv1.AlarmSpec{alarm(id, time.Hour), alarm(id, 2*time.Hour), faulty, absent,
				alarm(strings.Repeat("x", 129), time.Hour)},
			Cancel: []string{id, "", id + " unknown"},
		}, &clockdv1.BatchResponse{})
		type result struct {
			id         string
			created    bool
			generation int64
			state      clockdv1.State
			code       codes.Code
			problem    string
			field      string
		}
		want := []result{
			{id, true, 1, clockdv1.State_STATE_SCHEDULED, codes.OK, "", ""},
			{id, false, 2, clockdv1.State_STATE_SCHEDULED, codes.OK, "", ""},
			{id + " faulty", false, 0, 0, codes.InvalidArgument, "out_of_range", "priority"},
			{id, false, 2, clockdv1.State_STATE_SCHEDULED, codes.Aborted, "condition_failed", ""},
			{"", false, 0, 0, codes.InvalidArgument, "invalid_business_id", "business_id"},
			{id, false, 2, clockdv1.State_STATE_CANCELLED, codes.OK, "", ""},
			{"", false, 0, 0, codes.InvalidArgument, "invalid_business_id", "business_id"},
			{id + " unknown", false, 0, 0, codes.NotFound, "unknown_alarm", ""},
		}
		if len(response.Results) != len(want) {
			t.Fatalf("%d results", len(response.Results))
		}
		for i, r := range response.Results {
			f := r.GetFailure()
			got := result{r.BusinessId, r.Created, r.Generation, r.State, codes.Code(f.GetCode()),
				f.GetProblem().GetCode(), f.GetProblem().GetField()}
			if got != want[i] || f.GetProblem().GetAlarm() != nil || (f.GetMessage() == "") != (f == nil) {
				t.Errorf("item %d: %v, want %v; %v", i, got, want[i], r)
			}
		}
	})
}

func TestBatchHasItsLimits(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		request := &clockdv1.BatchRequest{Application: "shop"}
		for i := range 1000 {
			request.Cancel = append(request.Cancel, fmt.Sprint("order-", i))
		}
		if response := must(t, c, "Batch", request, &clockdv1.BatchResponse{}); len(response.Results) != 1000 {
			t.Errorf("%d results", len(response.Results))
		}
		request.Set = []*clockdv1.AlarmSpec{alarm("a", time.Hour)}
		if f := c.call(t.Context(), "Batch", request, &clockdv1.BatchResponse{}); f == nil ||
			f.code != codes.InvalidArgument || f.problem.GetCode() != "batch_too_large" {
			t.Errorf("1001 items: %v", f)
		}
		large := &clockdv1.BatchRequest{Application: "shop", Set: []*clockdv1.AlarmSpec{alarm("a", time.Hour)}}
		large.Set[0].Payload = &clockdv1.AlarmSpec_Text{Text: strings.Repeat("x", 8<<20)}
		if f := c.call(t.Context(), "Batch", large, &clockdv1.BatchResponse{}); f == nil ||
			f.code != codes.InvalidArgument || f.problem.GetCode() != "body_too_large" {
			t.Errorf("over 8 MiB: %v", f)
		}
		if f := c.call(t.Context(), "Batch", &clockdv1.BatchRequest{Application: "-"}, &clockdv1.BatchResponse{}); f == nil || f.problem.GetField() != "application" {
			t.Errorf("a wrong application: %v", f)
		}
		if f := c.call(t.Context(), "Get", &clockdv1.GetRequest{Application: "shop", BusinessId: "a"}, &clockdv1.GetResponse{}); f == nil || f.code != codes.NotFound {
			t.Errorf("a refused batch left an alarm: %v", f)
		}
	})
}

// Items that fail for the server's reasons fail the whole batch, which may be repeated.
func TestBatchWithAFailureOfTheServerFailsAsAWhole(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.failing = true })
	forEach(t, s, func(t *testing.T, c caller, id string) {
		for problem, ids := range map[string][]string{"unavailable": {"unavailable", "\n"}, "unconfirmed": {id, "unavailable"}, "internal": {"unexpected"}} {
			f := c.call(t.Context(), "Batch",
				&clockdv1.BatchRequest{Application: "shop", Cancel: []string{"\n"}, Set: specs(ids...)},
				&clockdv1.BatchResponse{})
			if f == nil || f.code != codes.Unavailable || f.problem.GetCode() != problem ||
				f.problem.GetRetryAfter().GetSeconds() != 1 {
				t.Errorf("%q: %v", ids, f)
			}
		}
	})
}

func specs(ids ...string) (all []*clockdv1.AlarmSpec) {
	for _, id := range ids {
		all = append(all, alarm(id, time.Hour))
	}
	return all
}

func TestFailuresOfTheServerHaveTheirCode(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.failing = true })
	forEach(t, s, func(t *testing.T, c caller, _ string) {
		for id, want := range map[string]codes.Code{"unavailable": codes.Unavailable, "unexpected": codes.Internal, "panic": codes.Internal} {
			f := c.call(t.Context(), "Set", &clockdv1.SetRequest{Application: "shop", Alarm: alarm(id, time.Hour)},
				&clockdv1.SetResponse{})
			if f == nil || f.code != want || (f.problem.GetRetryAfter() != nil) != (want == codes.Unavailable) ||
				strings.Contains(f.text, "a bug") {
				t.Errorf("%s: %v", id, f)
			}
		}
	})
	_, header, _ := s.do(t.Context(), procedure("Set"), "application/json",
		`{"application":"shop","alarm":{"business_id":"unavailable","delay":"1s"}}`)
	if header.Get("Retry-After") != "1" {
		t.Errorf("header %v", header)
	}
}

// A deadline that passes during the procedure is no fault of the server, and no line of its log.
func TestDeadlineDuringTheProcedureIsNoFault(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.failing = true })
	status, _, body := s.do(t.Context(), procedure("Set"), "application/json",
		`{"application":"shop","alarm":{"business_id":"late","delay":"3600s"}}`, "Connect-Timeout-Ms", "20")
	if f := connectFailure(t, body); status != http.StatusGatewayTimeout || f.code != codes.DeadlineExceeded {
		t.Errorf("status %d, %v", status, f)
	}
	if n, err := testutil.GatherAndCount(s.metrics, "clockd_http_problems_total"); n != 0 || err != nil {
		t.Errorf("%d codes of problems, %v", n, err)
	}
}

func TestCallThatHasEndedBeforeItBeganChangesNothing(t *testing.T) {
	t.Parallel()
	s := start(t)
	status, _, body := s.do(t.Context(), procedure("Set"), "application/json",
		`{"application":"shop","alarm":{"business_id":"late","delay":"3600s"}}`, "Connect-Timeout-Ms", "0")
	if f := connectFailure(t, body); status != http.StatusGatewayTimeout || f.code != codes.DeadlineExceeded {
		t.Errorf("status %d, %v", status, f)
	}
	if status, _, body := s.do(t.Context(), procedure("Get"), "application/json", `{"application":"shop","business_id":"late"}`); status != http.StatusNotFound {
		t.Errorf("the alarm: status %d, %s", status, body)
	}
}
