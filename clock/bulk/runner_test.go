package bulk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is the alarms and the jobs of a database. It refuses the ops on each alarm with the errors of a script, in
// order; the last one stays.
type scripted struct {
	mu     sync.Mutex
	ids    []string
	script map[string][]error // by business id
	jobs   map[string]clock.JobRecord
	lists  int // reads of the alarms
	paged  int // alarms of a page; 0: all
	broken int // number of the read that fails; 0: none
}

func (s *scripted) List(
	_ context.Context, q clock.ListQuery, take func(*clock.Alarm) bool,
) (clock.ListPosition, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists++; s.lists == s.broken {
		return clock.ListPosition{}, clock.Unavailable(errors.New("connection refused"))
	}
	passed := 0
	for _, id := range s.ids {
		if id <= q.After.BusinessID {
			continue
		}
		take(&clock.Alarm{Key: clock.Key{Application: q.Application, BusinessID: id}})
		if passed++; passed == s.paged && id != s.ids[len(s.ids)-1] {
			return clock.ListPosition{BusinessID: id}, nil
		}
	}
	return clock.ListPosition{}, nil
}

func (s *scripted) Submit(_ context.Context, op clock.Op) *clock.Pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := op.Key().BusinessID
	errs := s.script[id]
	if len(errs) > 1 {
		s.script[id] = errs[1:]
	}
	if len(errs) == 0 || errs[0] == nil {
		return clock.Decided(op, clock.Decision{Verdict: clock.Amend})
	}
	return clock.Decided(op, clock.Decision{Verdict: clock.Refuse, Err: errs[0]})
}

func (s *scripted) AddJob(_ context.Context, j clock.JobRecord, _ clock.Act) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[j.ID] = j
	return nil
}

func (s *scripted) Job(_ context.Context, id string) (clock.JobRecord, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[id], nil
}

func (s *scripted) OpenJobs(ctx context.Context, limit int) (open []clock.JobRecord, err error) {
	jobs, err := s.Jobs(ctx, limit)
	for _, j := range jobs {
		if j.EndedAt == clock.NoInstant {
			open = append(open, j)
		}
	}
	return open, err
}

func (s *scripted) Jobs(context.Context, int) (jobs []clock.JobRecord, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		jobs = append(jobs, j)
	}
	return jobs, nil
}

func (s *scripted) ChangeJob(_ context.Context, j clock.JobRecord, _ ...clock.Act) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[j.ID].Revision != j.Revision {
		return false, nil
	}
	j.Revision++
	s.jobs[j.ID] = j
	return true, nil
}

func (s *scripted) DeleteJobs(context.Context, clock.Instant) error { return nil }

// runner returns a runner that does no work yet.
func (s *scripted) runner() *Runner {
	return NewRunner(Deps{Alarms: s, Store: s,
		Now: func() (clock.Instant, error) { return clock.Instant(time.Now().UnixMilli()), nil }, Incarnation: "one",
		Log: slog.New(slog.DiscardHandler)})
}

// filter selects all alarms of the application.
func filter(application string, action Action) Filter {
	return Filter{Application: application, Action: action, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant,
		FrozenAt: clock.NoInstant}
}

// run runs a job on the alarms to its end, at most for a time.
func (s *scripted) run(t *testing.T, action Action, most time.Duration) *Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	r := s.runner()
	f := filter("shop", action)
	if action == Shift {
		f.ShiftMillis = 1000
	}
	j, err := r.Start(ctx, f, "ann", clock.Actor{})
	if err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	for ctx.Err() == nil && j.EndedAt == clock.NoInstant {
		time.Sleep(100 * time.Millisecond)
		if j, err = r.Job(ctx, j.ID); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	return j
}

func TestJobCountsWhatItsOpsCameTo(t *testing.T) {
	var (
		away        = clock.Unavailable(errors.New("connection refused"))
		unconfirmed = clock.Unconfirmed(errors.New("connection reset"))
		overloaded  = &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded}
		locked      = clock.Op{}.LockTimeoutError(nil)
		repeats     = &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeRepeats}
		cancelled   = &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeAlreadyCancelled}
		changed     = &clock.Error{Kind: clock.ErrPrecondition, Code: clock.CodeConditionFailed}
	)
	minute := make([]error, 5*60, 5*60+1) // a failure every 200 ms
	for i := range minute {
		minute[i] = away
	}
	tests := map[string]struct {
		script  []error
		changed int
		refused map[string]int
	}{
		"changed": {script: nil, changed: 1},
		"refused": {script: []error{repeats},
			refused: map[string]int{clock.CodeRepeats: 1}},
		"the database is away for a minute": {script: append(minute, nil), changed: 1},
		"the queue is full for a time": {script: []error{overloaded, overloaded, overloaded, overloaded, nil},
			changed: 1},
		"the row stays locked": {script: []error{locked},
			refused: map[string]int{clock.CodeUnavailable: 1}},
		"it has changed since":                  {script: []error{changed}},
		"changed by the COMMIT without a reply": {script: []error{unconfirmed, changed}, changed: 1},
		"ended by the COMMIT without a reply":   {script: []error{unconfirmed, away, cancelled}, changed: 1},
		"refused after the database was away": {script: []error{away, repeats},
			refused: map[string]int{clock.CodeRepeats: 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{ids: []string{"a"}, script: map[string][]error{"a": test.script},
					jobs: map[string]clock.JobRecord{}}
				j := s.run(t, Shift, 5*time.Minute)
				if j.Status != Done || j.Changed != test.changed || !maps.Equal(j.Refused, test.refused) {
					t.Errorf("the job is %s: %d changed, %v refused", j.Status, j.Changed, j.Refused)
				}
			})
		})
	}
}

// TestAlarmWithoutDecisionHoldsTheJob shows that a job whose ops fail neither ends nor counts, and that its owner
// repeats the page before its lease ends.
func TestAlarmWithoutDecisionHoldsTheJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{ids: []string{"a", "b"},
			script: map[string][]error{"b": {clock.Unavailable(errors.New("connection refused"))}},
			jobs:   map[string]clock.JobRecord{}}
		j := s.run(t, Cancel, time.Minute)
		if j.EndedAt != clock.NoInstant || j.Changed != 0 || j.RefusedTotal() != 0 {
			t.Errorf("the job is %s: %d changed, %v refused", j.Status, j.Changed, j.Refused)
		}
		if s.lists < 4 {
			t.Errorf("the page was read %d times in a minute", s.lists)
		}
	})
}

// While a page is changed, the next one is read. If that fails, the page is read in its turn.
func TestJobReadsPagesAhead(t *testing.T) {
	for broken, lists := range map[int]int{0: 3, 2: 4, 3: 4} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{ids: []string{"a", "b", "c", "d", "e"}, paged: 2, broken: broken,
				jobs: map[string]clock.JobRecord{}}
			j := s.run(t, Cancel, time.Minute)
			if j.Status != Done || j.Changed != 5 || s.lists != lists {
				t.Errorf("read %d failed: the job is %s, %d changed, %d reads", broken, j.Status, j.Changed, s.lists)
			}
		})
	}
}

// A page is read ahead only if its alarms stay selected. An alarm that may have left the due range since it was read is
// changed only at the generation that was read.
func TestStaleSelectionsChangeNothing(t *testing.T) {
	all, some := filter("shop", Cancel), filter("shop", Cancel)
	some.States = []clock.State{clock.Paused}
	due, shift := filter("shop", Cancel), filter("shop", Shift)
	due.DueBefore, shift.DueAfter, shift.ShiftMillis = 100, 100, 1
	for _, c := range []struct {
		filter             Filter
		lasting, condition bool
	}{{all, true, false}, {some, false, false}, {due, false, true}, {shift, true, false}} {
		if err := c.filter.Validate(); err != nil {
			t.Fatal(err)
		}
		if got := c.filter.lasting(); got != c.lasting {
			t.Errorf("%+v: lasting %t", c.filter, got)
		}
		op := (&Document{Filter: c.filter}).op(selected{clock.Key{}, 7})
		read := clock.Condition{Kind: clock.AtGeneration, Generation: 7}
		if op.Cancel != nil && (op.Cancel.If == read) != c.condition {
			t.Errorf("%+v: the op is %+v", c.filter, op.Cancel)
		}
	}
	due.Action = Pause
	if op := (&Document{Filter: due}).op(selected{clock.Key{}, 7}); op.Pause.If.Generation != 7 {
		t.Errorf("the pause is %+v", op.Pause)
	}
}

func TestRingingAlarmsAreStopped(t *testing.T) {
	for action, may := range map[Action]bool{Cancel: true, Pause: true, Resume: false, Kick: false, Shift: false} {
		f := Filter{Application: "shop", Action: action, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant}
		if action == Shift {
			f.ShiftMillis = 1
		}
		if err := f.Validate(); err != nil || slices.Contains(f.States, clock.Ringing) != may {
			t.Errorf("%s: %v, %v", action, f.States, err)
		}
	}
}

// An application has a limit of jobs that have not ended, which other applications do not share.
func TestApplicationHasALimitOfOpenJobs(t *testing.T) {
	t.Parallel()
	s := &scripted{jobs: map[string]clock.JobRecord{}}
	r := s.runner()
	start := func(application string) (*Job, error) {
		return r.Start(t.Context(), filter(application, Cancel), "ann", clock.Actor{})
	}
	var first *Job
	for range maxOpen {
		j, err := start("shop")
		if err != nil {
			t.Fatal(err)
		}
		first = j
	}
	if _, err := start("shop"); !errors.Is(err, clock.ErrLimited) {
		t.Errorf("one job more: %v", err)
	}
	if _, err := start("bank"); err != nil {
		t.Errorf("another application: %v", err)
	}
	if _, err := r.Stop(t.Context(), first.ID, clock.Actor{}); err != nil {
		t.Fatal(err)
	}
	if _, err := start("shop"); err != nil {
		t.Errorf("after a job has ended: %v", err)
	}
}

// A list of an application's jobs has them also when others have started many since.
func TestJobsAreChosenByApplication(t *testing.T) {
	t.Parallel()
	s := &scripted{jobs: map[string]clock.JobRecord{}}
	r := s.runner()
	if _, err := r.Start(t.Context(), filter("shop", Cancel), "ann", clock.Actor{}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * shownJobs {
		if _, err := r.Start(t.Context(), filter(fmt.Sprint("bank-", i), Cancel), "ann", clock.Actor{}); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := r.Jobs(t.Context(), func(application string) bool { return application == "shop" })
	if err != nil || len(jobs) != 1 || jobs[0].Application != "shop" {
		t.Errorf("%d jobs of shop, %v", len(jobs), err)
	}
	if jobs, err := r.Jobs(t.Context(), func(string) bool { return true }); err != nil || len(jobs) != shownJobs {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

// An alarm has the jobs that may have changed it: those of its application and its business id, begun after it was
// created and before its last change.
func TestJobsOnAnAlarm(t *testing.T) {
	t.Parallel()
	s := &scripted{jobs: map[string]clock.JobRecord{}}
	for id, change := range map[string]func(*Job){
		"done":              func(*Job) {},
		"without a note":    func(j *Job) { j.Note = "" },
		"of a prefix":       func(j *Job) { j.Prefix = "order-" },
		"of others":         func(j *Job) { j.Prefix = "card-" },
		"of bank":           func(j *Job) { j.Application = "bank" },
		"frozen before":     func(j *Job) { j.FrozenAt = 99 },
		"after the change":  func(j *Job) { j.CreatedAt, j.FrozenAt = 151, 151 },
		"running":           func(j *Job) { j.EndedAt, j.Changed = clock.NoInstant, 0 },
		"changed nothing":   func(j *Job) { j.Changed = 0 },
		"stopped in a page": func(j *Job) { j.Changed, j.Left = 0, true },
	} {
		j := &Job{ID: id, CreatedAt: 101, EndedAt: 200, Document: Document{Filter: filter("shop", Pause), By: "ann"}}
		j.FrozenAt, j.Note, j.Changed = 100, "stock", 1
		change(j)
		j.record = clock.JobRecord{ID: id, CreatedAt: j.CreatedAt}
		record, err := j.next()
		if err != nil {
			t.Fatal(err)
		}
		s.jobs[id] = record
	}
	s.jobs["unreadable"] = clock.JobRecord{ID: "unreadable", EndedAt: 200, Document: "{"}
	alarm := &clock.Alarm{Key: clock.Key{Application: "shop", BusinessID: "order-7"}, CreateTime: 100}
	alarm.UpdateTime = 150
	acts, err := s.runner().On(t.Context(), alarm)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, act := range acts {
		ids = append(ids, act.Job)
		want := clock.BulkAct{Job: act.Job, At: 101, What: "pause: stock", By: "ann"}
		if act.Job == "without a note" {
			want.What = "pause"
		}
		if act != want {
			t.Errorf("got %+v, want %+v", act, want)
		}
	}
	slices.Sort(ids)
	want := []string{"done", "of a prefix", "running", "stopped in a page", "without a note"}
	if !slices.Equal(ids, want) {
		t.Errorf("jobs %q, want %q", ids, want)
	}
}

// The document of a job that this build cannot read stays when a person stops it.
func TestStopKeepsAnUnreadableDocument(t *testing.T) {
	t.Parallel()
	const document = `{"application":"shop","action":"of another build"}`
	s := &scripted{jobs: map[string]clock.JobRecord{
		"J": {ID: "J", EndedAt: clock.NoInstant, Revision: 1, Owner: "another", LeaseUntil: 1, Document: document},
	}}
	s.jobs["K"] = clock.JobRecord{ID: "K", EndedAt: clock.NoInstant, Owner: "another", LeaseUntil: clock.MaxInstant,
		Document: document}
	if _, err := s.runner().Stop(t.Context(), "K", clock.Actor{}); !errors.Is(err, clock.ErrUnavailable) ||
		s.jobs["K"].Document != document {
		t.Errorf("another node works on it: %v", err)
	}
	j, err := s.runner().Stop(t.Context(), "J", clock.Actor{})
	if stored := s.jobs["J"]; err != nil || stored.Document != document || stored.EndedAt == clock.NoInstant ||
		j.Status != Failed {
		t.Errorf("%+v, %+v, %v", j, stored, err)
	}
}
