package clockhttp

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/bulk"
)

// fixedBulk has one job, of the application shop.
type fixedBulk struct {
	started []bulk.Filter
	by      []string
	stopped int
	broken  error // of On
}

func (f *fixedBulk) job() *bulk.Job {
	j := &bulk.Job{ID: "J1", CreatedAt: 1_800_000_000_000, EndedAt: clock.NoInstant, Status: bulk.Running}
	j.Application, j.Action, j.States, j.DueAfter, j.DueBefore = "shop", bulk.Shift, []clock.State{clock.Scheduled, clock.Paused}, clock.NoInstant, 1_800_000_000_000
	j.ShiftMillis, j.FrozenAt, j.By, j.Changed, j.Refused = -1500, 1_800_000_000_000, "ann", 7, map[string]int{"repeats": 2, "already_rung": 1}
	return j
}

func (f *fixedBulk) Count(_ context.Context, filter bulk.Filter) (bulk.Selection, error) {
	return bulk.Selection{FrozenAt: 1_800_000_000_000, Count: 3, Complete: true, Samples: []string{"a", `"b"`}}, filter.Validate()
}

func (f *fixedBulk) Start(_ context.Context, filter bulk.Filter, by string, _ clock.Actor) (*bulk.Job, error) {
	f.started, f.by = append(f.started, filter), append(f.by, by)
	return f.job(), filter.Validate()
}

func (f *fixedBulk) Job(_ context.Context, id string) (*bulk.Job, error) {
	if id != "J1" {
		return nil, clock.UnknownJob(id)
	}
	return f.job(), nil
}

func (f *fixedBulk) Jobs(_ context.Context, wanted func(string) bool) ([]*bulk.Job, error) {
	broken := &bulk.Job{ID: "J0", EndedAt: 2, Status: bulk.Failed}
	broken.DueAfter, broken.DueBefore = clock.NoInstant, clock.NoInstant
	return slices.DeleteFunc([]*bulk.Job{f.job(), broken}, func(j *bulk.Job) bool { return !wanted(j.Application) }), nil
}

func (f *fixedBulk) On(context.Context, *clock.Alarm) ([]clock.BulkAct, error) {
	if f.broken != nil {
		return nil, f.broken
	}
	return []clock.BulkAct{{Job: "J1", At: 1_800_000_000_000, What: "pause: stock", By: "ann"}}, nil
}

func (f *fixedBulk) Stop(_ context.Context, id string, _ clock.Actor) (*bulk.Job, error) {
	f.stopped++
	return f.Job(context.Background(), id)
}

func TestBulkJobsAreStartedShownAndStopped(t *testing.T) {
	t.Parallel()
	jobs := &fixedBulk{}
	h := start(t, func(su *setup) { su.deps.Bulk = jobs })
	body := `{"application":"shop","action":"shift","state":["paused"],"prefix":"a","due_after":100000000005,"due_before":"2027-01-15T08:00:00Z","shift":"-1h30m","frozen_at":100000000007,"by":"bob","note":"why"}`
	got := strings.TrimSpace(string(h.expect(201, "", "POST", "/v1/bulk", body).body))
	want := `{"id":"J1","status":"running","application":"shop","action":"shift","state":["scheduled","paused"],"prefix":"","due_after":null,"due_before":"2027-01-15T08:00:00.000Z",` +
		`"shift":"-1s500ms","frozen_at":"2027-01-15T08:00:00.000Z","by":"ann","note":null,"created_at":"2027-01-15T08:00:00.000Z","ended_at":null,"changed":7,"refused":{"already_rung":1,"repeats":2}}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	f := jobs.started[0]
	if f.Application != "shop" || f.Action != bulk.Shift || len(f.States) != 1 || f.States[0] != clock.Paused ||
		f.Prefix != "a" || f.DueAfter != 100_000_000_005 || f.DueBefore != 1_800_000_000_000 ||
		f.ShiftMillis != -5_400_000 || f.FrozenAt != 100_000_000_007 || f.Note != "why" || jobs.by[0] != "bob" {
		t.Errorf("started %+v by %s", f, jobs.by[0])
	}
	if got := strings.TrimSpace(string(h.expect(200, "", "POST", "/v1/bulk", `{"application":"shop","action":"cancel","dry_run":true}`).body)); got != `{"frozen_at":"2027-01-15T08:00:00.000Z","count":3,"complete":true,"samples":["a","\"b\""]}` {
		t.Errorf("counted %s", got)
	}
	h.expect(201, "", "POST", "/v1/bulk", `{"application":"shop","action":"cancel"}`)
	if jobs.by[1] != "127.0.0.1" || jobs.started[1].FrozenAt != clock.NoInstant || len(jobs.started) != 2 {
		t.Errorf("started %+v by %v", jobs.started, jobs.by)
	}
	h.expect(200, "", "GET", "/v1/bulk/J1", "")
	h.expect(404, clock.CodeUnknownJob, "GET", "/v1/bulk/J2", "")
	h.expect(200, "", "POST", "/v1/bulk/J1/stop", "")
	h.expect(404, clock.CodeUnknownJob, "POST", "/v1/bulk/J2/stop", "")
	if list := string(h.expect(200, "", "GET", "/v1/bulk", "").body); jobs.stopped != 1 ||
		!strings.Contains(list, `"status":"failed"`) {
		t.Errorf("stopped %d times; %s", jobs.stopped, list)
	}
	for field, body := range map[string]string{
		"action":  `{"application":"shop","action":"delete"}`,
		"shift":   `{"application":"shop","action":"shift","shift":"soon"}`,
		"state":   `{"application":"shop","action":"cancel","state":["dead"]}`,
		"dry_run": `{"application":"shop","action":"cancel","dry_run":1}`, "application": `{"action":"cancel"}`,
		"limit": `{"limit":5}`, "by": `{"by":"` + strings.Repeat("x", 129) + `"}`,
	} {
		if r := h.do("POST", "/v1/bulk", body); r.status != 422 || r.field("field") != field {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	start(t).expect(503, clock.CodeUnavailable, "POST", "/v1/bulk", `{"application":"shop","action":"cancel"}`)
	start(t).expect(503, clock.CodeUnavailable, "GET", "/v1/bulk", "")
}

func TestBulkJobsBelongToTheApplicationsOfTheToken(t *testing.T) {
	t.Parallel()
	tokens := &testTokens{t: t}
	shop, bank := tokens.add("shop", access.Operator, "shop"), tokens.add("bank", access.Operator, "bank")
	jobs := &fixedBulk{}
	h := start(t, func(su *setup) { su.deps.Access, su.deps.Bulk = tokens.watch(), jobs })
	h.expect(201, "", "POST", "/v1/bulk", `{"application":"shop","action":"cancel"}`, shop)
	if jobs.by[0] != "shop" {
		t.Errorf("started by %v", jobs.by)
	}
	h.expect(403, clock.CodeForbidden, "POST", "/v1/bulk", `{"application":"shop","action":"cancel"}`, bank)
	h.expect(200, "", "GET", "/v1/bulk/J1", "", shop)
	h.expect(404, clock.CodeUnknownJob, "GET", "/v1/bulk/J1", "", bank)
	h.expect(404, clock.CodeUnknownJob, "POST", "/v1/bulk/J1/stop", "", bank)
	h.expect(403, clock.CodeForbidden, "GET", "/v1/bulk?application=shop", "", bank)
	h.expect(422, codeUnknownParameter, "GET", "/v1/bulk?limit=3", "", shop)
	if list := string(h.expect(200, "", "GET", "/v1/bulk?application=shop", "", shop).body); !strings.Contains(list, "J1") {
		t.Errorf("jobs of shop: %s", list)
	}
	if list := string(h.expect(200, "", "GET", "/v1/bulk", "", bank).body); jobs.stopped != 0 ||
		strings.TrimSpace(list) != `{"jobs":[]}` {
		t.Errorf("stopped %d times; %s", jobs.stopped, list)
	}
}

// A job of a caller with a token has the token's name, whatever the body says.
func TestBulkJobOfATokenHasItsName(t *testing.T) {
	t.Parallel()
	jobs, tokens := &fixedBulk{}, &testTokens{t: t}
	boss := tokens.add("boss", access.Administrator, "*")
	h := start(t, func(su *setup) { su.deps.Bulk, su.deps.Access = jobs, tokens.watch() })
	h.expect(201, "", "POST", "/v1/bulk",
		`{"application":"shop","action":"cancel","frozen_at":100000000007,"by":"bob"}`, boss)
	if jobs.by[0] != "boss" {
		t.Errorf("started by %s", jobs.by[0])
	}
}
