package clock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// ringing sets an alarm and rings it once, so that it waits for the acknowledgement.
func (s *testService) ringing(t *testing.T, id string) RingID {
	t.Helper()
	set := testSet(id)
	set.AckTimeout = time.Minute
	a := must(t, s.Submit(Op{Set: set})).Alarm
	s.store.change(a.Key, confirmRing)
	return RingID{AlarmID: a.ID, Generation: a.Generation, RingNo: 1}
}

// confirmRing changes a row as the settlement of a confirmed ring does.
func confirmRing(a *Alarm) {
	a.State, a.RingNo, a.RungAt, a.NextTryTime = Ringing, a.RingNo+1, 5, 60_000
}

func TestAnswersFindTheirAlarms(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		a, b, c := s.ringing(t, "a"), s.ringing(t, "b"), s.ringing(t, "c")
		unknown := RingID{99, 1, 1}
		pending := s.Answers(t.Context(), []Answer{
			{Ring: a, Kind: Ack, By: "worker-1"},
			{Ring: b, Kind: Release, Key: Key{Application: "shop", BusinessID: "not looked at"}},
			{Ring: c, Kind: Ack, Key: Key{Application: "other"}},
			{Ring: unknown, Kind: Ack},
			{Ring: a, Kind: Bury},
			{Ring: RingID{}, Kind: Ack},
			{Ring: c, Kind: Touch},
		})
		if d := must(t, pending[0]); d.Verdict != Amend || d.Alarm.BusinessID != "a" || d.Alarm.State != Rung ||
			d.Alarm.AnsweredBy != "worker-1" {
			t.Errorf("got %+v", d)
		}
		if d := must(t, pending[1]); d.Alarm.BusinessID != "b" || d.Alarm.State != Scheduled {
			t.Errorf("got %+v", d)
		}
		for i, want := range map[int]string{2: CodeUnknownRing, 3: CodeUnknownRing, 4: CodeStaleRing, 5: CodeInvalidValue} {
			if code := codeOf(t, pending[i]); code != want {
				t.Errorf("answer %d: %s, want %s", i, code, want)
			}
		}
		if d := must(t, pending[6]); d.Alarm.State != Ringing {
			t.Errorf("got %+v", d)
		}
		if want := [][]int64{{a.AlarmID, b.AlarmID, c.AlarmID, 99, a.AlarmID, c.AlarmID}}; !reflect.DeepEqual(s.store.keysCalls, want) {
			t.Errorf("asked for %v, want %v", s.store.keysCalls, want)
		}
		if !slices.ContainsFunc(s.woken, func(d Decision) bool {
			return d.Verdict == Amend &&
				d.Alarm.BusinessID == "b"
		}) {
			t.Error("the listener did not get the release")
		}
	})
}

func TestAnswersAreUnavailableWithoutTheDatabase(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		a := s.ringing(t, "a")
		groups := len(s.store.groups)
		s.store.failKeys = Unavailable(errors.New("gone"))
		if code := codeOf(t, s.Answer(t.Context(), Answer{Ring: a, Kind: Ack})); code != CodeUnavailable {
			t.Errorf("got %s", code)
		}
		if code := codeOf(t, s.Answer(t.Context(), Answer{Ring: a})); code != CodeInvalidValue {
			t.Errorf("got %s", code)
		}
		if len(s.store.keysCalls) != 1 || len(s.store.groups) != groups {
			t.Errorf("asked %d times, wrote %d times", len(s.store.keysCalls), len(s.store.groups)-groups)
		}
		if s.Answers(t.Context(), nil); len(s.store.keysCalls) != 1 {
			t.Error("the store was asked although there was no answer")
		}
	})
}

// An answer that arrives while the ring is in flight, in a held or a two-phase claim, is applied after the ring's
// outcome.
func TestAnswersWaitForTheRingThatTheyAnswer(t *testing.T) {
	for name, hold := range map[string]func(s *testService, k Key){
		"locked":    func(s *testService, k Key) { s.store.lock(k, 2*time.Second) },
		"two-phase": func(s *testService, k Key) { s.claimTwoPhase(k.BusinessID, 30*time.Second) },
	} {
		for outcome, c := range map[string]struct {
			settle func(a *Alarm)
			want   string
		}{
			"confirmed": {func(a *Alarm) { confirmRing(a) }, ""},
			"in doubt":  {func(a *Alarm) { a.State, a.InDoubt, a.NextTryTime = Scheduled, true, 7 }, ""},
			"returned":  {func(a *Alarm) { a.State, a.NextTryTime = Scheduled, 7 }, CodeUnknownRing},
		} {
			t.Run(name+"/"+outcome, func(t *testing.T) {
				withService(t, nil, func(t *testing.T, s *testService) {
					ring := s.ringing(t, "a")
					ring.RingNo++
					key := Key{"shop", "a"}
					hold(s, key)
					begun := time.Now()
					p := s.Answer(t.Context(), Answer{Ring: ring, Kind: Ack})
					repeated := s.Answer(t.Context(), Answer{Ring: ring, Kind: Ack})
					time.Sleep(1900 * time.Millisecond)
					select {
					case <-p.Done():
						t.Fatal("decided before the ring's outcome was known")
					default:
					}
					s.store.change(key, c.settle)
					checkDelayedAnswer(t, p, repeated, c.want)
					if took := time.Since(begun); took > 2200*time.Millisecond {
						t.Errorf("decided after %s", took)
					}
				})
			})
		}
	}
}

func checkDelayedAnswer(t *testing.T, first, repeated *Pending, want string) {
	t.Helper()
	if want != "" {
		if code := codeOf(t, first); code != want {
			t.Errorf("got %s, want %s", code, want)
		}
		return
	}
	if d := must(t, first); d.Alarm.State != Rung || d.Alarm.RingNo != 2 || d.Alarm.InDoubt {
		t.Errorf("got %+v", d.Alarm)
	}
	if code := codeOf(t, repeated); code != CodeStaleRing {
		t.Errorf("repeated: %s", code)
	}
}

func TestAnswersWaitNoLongerThanTheClaim(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		ring := s.ringing(t, "a")
		ring.RingNo++
		s.claimTwoPhase("a", 2*time.Second)
		if code := codeOf(t, s.Answer(t.Context(), Answer{Ring: ring, Kind: Ack})); code != CodeUnavailable {
			t.Errorf("got %s", code)
		}
	})
}

// dead sets n alarms and makes them dead, and every third of them expired.
func (s *testService) dead(t *testing.T, prefix string, n int) {
	t.Helper()
	var all []*Pending
	for i := range n {
		all = append(all, s.set(fmt.Sprintf("%s%04d", prefix, i)))
	}
	for i, p := range all {
		must(t, p)
		s.store.change(p.op.Key(), func(a *Alarm) {
			a.State, a.NextTryTime, a.FinishedAt = Dead, NoInstant, 7
			if i%3 == 0 {
				a.State = Expired
			}
		})
	}
}

func (s *testService) inState(st State) (n int) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, row := range s.store.rows {
		if row.State == st {
			n++
		}
	}
	return n
}

func TestKickAndDiscardByFilterFollowTheCursor(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		s.dead(t, "a", 300)
		s.dead(t, "b", 30)
		must(t, s.set("a-pending"))
		q := DeadQuery{Application: "shop", Prefix: "a", Limit: 250}
		r, err := s.KickAll(t.Context(), q)
		if r != (DeadResult{Done: 250, Next: "a0249"}) || err != nil {
			t.Errorf("kicked %+v, %v", r, err)
		}
		q.After, q.States = r.Next, []State{Dead}
		if r, err = s.DiscardAll(t.Context(), q); r != (DeadResult{Done: 34}) || err != nil {
			t.Errorf("discarded %+v, %v", r, err)
		}
		for st, want := range map[State]int{Scheduled: 251, Cancelled: 34, Expired: 16 + 10, Dead: 20} {
			if got := s.inState(st); got != want {
				t.Errorf("%d are %s, want %d", got, st, want)
			}
		}
		if r, err = s.KickAll(t.Context(), DeadQuery{Application: "shop", Prefix: "b", Limit: 30}); r != (DeadResult{Done: 30, Next: "b0029"}) || err != nil {
			t.Errorf("kicked %+v, %v", r, err)
		}
	})
}

func TestKickByFilterCountsAlarmsThatAreKickedAlready(t *testing.T) {
	configure := func(_ *ServiceConfig, st *modelStore) { st.latency = time.Second }
	withService(t, configure, func(t *testing.T, s *testService) {
		s.dead(t, "a", 5)
		var faster []*Pending
		s.store.failList = func(q ListQuery) error {
			s.store.failList = nil
			for i := range 2 { // queued before the kicks of the filter
				faster = append(faster, s.Submit(Op{Kick: &Kick{Key: Key{q.Application, fmt.Sprintf("a%04d", i)}}}))
			}
			return nil
		}
		r, err := s.KickAll(t.Context(), DeadQuery{Application: "shop", Limit: 10})
		if r != (DeadResult{Done: 3, Failed: 2}) || err != nil || len(faster) != 2 {
			t.Errorf("kicked %+v, %v", r, err)
		}
	})
}

func TestKickByFilterStopsWhenTheDatabaseFails(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		s.dead(t, "a", 250)
		s.store.fail = func(r WriteRequest) error {
			if slices.ContainsFunc(r.Ops, func(o Op) bool { return strings.HasPrefix(o.Key().BusinessID, "a01") }) {
				return Unavailable(errors.New("gone"))
			}
			return nil
		}
		q := DeadQuery{Application: "shop", Limit: 1000}
		if r, err := s.KickAll(t.Context(), q); r.Done != 100 || r.Failed != 100 || !errors.Is(err, ErrUnavailable) {
			t.Errorf("with a database that fails: %+v, %v", r, err)
		}
		s.store.fail = nil
		calls := 0
		s.store.failList = func(ListQuery) error {
			if calls++; calls == 2 {
				return Unavailable(errors.New("too late"))
			}
			return nil
		}
		if r, err := s.KickAll(t.Context(), q); r.Done != 100 || err == nil {
			t.Errorf("with a list that fails: %+v, %v", r, err)
		}
	})
}

func TestKickByFilterReturnsACursorWhenItsContextEnds(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		s.dead(t, "a", 250)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		calls := 0
		s.store.failList = func(ListQuery) error {
			if calls++; calls == 2 {
				cancel()
			}
			return ctx.Err()
		}
		r, err := s.KickAll(ctx, DeadQuery{Application: "shop", Limit: 1000})
		if r != (DeadResult{Done: 100, Next: "a0099"}) || err != nil {
			t.Errorf("kicked %+v, %v", r, err)
		}
		if _, err := s.KickAll(ctx, DeadQuery{Application: "shop", Limit: 1000}); err == nil {
			t.Error("no alarm was kicked, and there is no error")
		}
	})
}

func TestKickByFilterRefusesInvalidQueries(t *testing.T) {
	s := &Service{store: newModelStore()}
	for field, q := range map[string]DeadQuery{
		"application": {Limit: 1}, "limit": {Application: "shop"},
		"state":  {Application: "shop", Limit: 1, States: []State{Dead, Rung}},
		"prefix": {Application: "shop", Limit: 1, Prefix: "\xff"},
		"cursor": {Application: "shop", Limit: 1, After: "a\x00"},
	} {
		_, err := s.KickAll(t.Context(), q)
		if got, _ := invalidField(err); got != field {
			t.Errorf("%+v: %v, want field %q", q, err, field)
		}
	}
	if _, err := s.DiscardAll(t.Context(), DeadQuery{Application: "shop", Limit: MaxDeadLimit + 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("over the limit: %v", err)
	}
}
