package ringstream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/ringstream"
)

// resender records resends.
type resender struct {
	mu      sync.Mutex
	resends []clock.Resend
	err     error // refusal of each resend; nil: they are accepted
	calls   int
}

// tries returns the number of calls.
func (r *resender) tries() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls
}

func (r *resender) Resend(_ context.Context, resends []clock.Resend) []*clock.Pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	pending := make([]*clock.Pending, len(resends))
	for i := range resends {
		d := clock.Decision{Verdict: clock.Amend}
		if r.err != nil {
			d = clock.Decision{Verdict: clock.Refuse, Err: r.err}
		} else {
			r.resends = append(r.resends, resends[i])
		}
		pending[i] = clock.Decided(clock.Op{Resend: &resends[i]}, d)
	}
	return pending
}

// setErr changes the refusal.
func (r *resender) setErr(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// taken returns the alarm ids of the accepted resends, and forgets them.
func (r *resender) taken() (ids []int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.resends {
		ids = append(ids, s.Ring.AlarmID)
	}
	r.resends = nil
	return ids
}

func newJournal(t *testing.T, r *resender) *ringstream.Journal {
	t.Helper()
	j, err := ringstream.NewJournal(ringstream.Deps{Alarms: r, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// client is a client of a journal, with its open stream.
type client struct {
	t          *testing.T
	journal    *ringstream.Journal
	record     *ringstream.Record
	deliveries subscription
	leave      context.CancelFunc
	ended      chan error
	writer     *writer
}

// open opens a stream of the application shop that resumes after lastID.
func open(t *testing.T, j *ringstream.Journal, lastID string) *client {
	t.Helper()
	c := &client{t: t, journal: j, record: j.Open("shop", lastID), deliveries: make(subscription),
		ended: make(chan error, 1), writer: &writer{}}
	ctx, cancel := context.WithCancel(t.Context())
	c.leave = cancel
	s := ringstream.Stream{Writer: c.writer, Subscription: c.deliveries, Record: c.record, Timeout: time.Minute,
		Heartbeat: time.Hour}
	go func() {
		defer c.record.Close()
		c.ended <- s.Run(ctx)
	}()
	synctest.Wait()
	return c
}

// ringOf returns the first ring of the alarm.
func ringOf(id int64) clock.Ring {
	return clock.Ring{AlarmID: id, Key: clock.Key{Application: "shop"}, Generation: 1, RingNo: 1,
		ClaimID: fmt.Sprintf("claim-%d", id)}
}

// write writes rings of the alarms to the stream. It returns how many were written.
func (c *client) write(ids ...int64) (written int) {
	c.t.Helper()
	var rings []clock.Ring
	for _, id := range ids {
		rings = append(rings, ringOf(id))
	}
	done := make(chan int, 1)
	c.deliveries <- clock.Delivery{Rings: rings, Done: func(written, _ int, _ error) { done <- written }}
	return <-done
}

// end ends the stream.
func (c *client) end() {
	c.t.Helper()
	c.leave()
	if err := <-c.ended; err != nil {
		c.t.Error(err)
	}
	synctest.Wait()
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// inBubble runs a test with an empty journal.
func inBubble(t *testing.T, test func(t *testing.T, j *ringstream.Journal, r *resender)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &resender{}
		test(t, newJournal(t, r), r)
		time.Sleep(2 * time.Minute) // the journal forgets all sessions
	})
}

func TestResumedStreamSendsLaterRingsAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		first, other := open(t, j, ""), open(t, j, "")
		first.write(1, 2)
		other.write(3)
		first.write(4)
		first.write(5)
		first.end()
		second := open(t, j, "2.1.1")
		want(t, "opening", second.record.Opening().Resumed, ringstream.Resumed)
		want(t, "missing", second.record.Opening().Missing, 2)
		if !slices.Equal(r.resends, []clock.Resend{
			{Key: clock.Key{Application: "shop"}, Ring: clock.RingID{AlarmID: 4, Generation: 1, RingNo: 1},
				ClaimID: "claim-4", Target: clock.TargetStream},
			{Key: clock.Key{Application: "shop"}, Ring: clock.RingID{AlarmID: 5, Generation: 1, RingNo: 1},
				ClaimID: "claim-5", Target: clock.TargetStream},
		}) {
			t.Errorf("resends %+v", r.resends)
		}
		second.end()
		other.end()
	})
}

func TestClientWithoutARingResumesFromThePosition(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		first := open(t, j, "")
		position := first.record.Opening().Position
		want(t, "resumption of a new stream", first.record.Opening().Resumed, ringstream.NotAsked)
		first.write(1, 2)
		first.end()
		second := open(t, j, position)
		want(t, "sent again", r.taken(), []int64{1, 2})
		want(t, "position", second.record.Opening().Position, position)
		second.write(1)
		second.end()
		third := open(t, j, position)
		want(t, "sent again after the second stream", r.taken(), []int64{1})
		third.end()
		fourth := open(t, j, position)
		want(t, "sent again after a stream without rings", r.taken(), []int64{})
		fourth.end()
	})
}

// A client that loses each connection before its first byte names the same ring again and again.
func TestClientMayResumeFromTheSameRingAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		first := open(t, j, "")
		first.write(1, 2)
		first.end()
		for range 3 {
			c := open(t, j, "1.1.1")
			want(t, "resumption", c.record.Opening().Resumed, ringstream.Resumed)
			want(t, "sent again", r.taken(), []int64{2})
			c.write(2) // the copy, which is lost again
			c.end()
		}
	})
}

func TestUnknownIDIsNotResumed(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		first := open(t, j, "")
		first.write(1, 2)
		first.end()
		for _, id := range []string{"9.1.1", "1.1.2", "nonsense", strings.Repeat("9", 5000)} {
			c := open(t, j, id)
			want(t, id, c.record.Opening().Resumed, ringstream.Unknown)
			c.end()
		}
		if o := j.Open("other", "1.1.1"); o.Opening().Resumed != ringstream.Unknown {
			t.Error("the stream of another application was resumed")
		} else {
			o.Close()
		}
		want(t, "sent again", r.taken(), []int64{})
	})
}

func TestEndedStreamIsForgottenAfterAMinute(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		for _, pause := range []time.Duration{59 * time.Second, time.Minute} {
			c := open(t, j, "")
			c.write(1, 2)
			c.end()
			time.Sleep(pause)
			resumed := open(t, j, "1.1.1")
			want(t, pause.String(), resumed.record.Opening().Resumed == ringstream.Resumed, pause < time.Minute)
			resumed.end()
			time.Sleep(2 * time.Minute)
		}
		want(t, "sent again", r.taken(), []int64{2})
	})
}

// A client has connected again, and its former connection is still open for the server, which is writing to it.
func TestResumedStreamEndsTheFormerOne(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		former := open(t, j, "")
		former.write(1)
		former.writer.stuck, former.writer.late = true, true
		written := make(chan int, 1)
		go func() { written <- former.write(2) }()
		synctest.Wait()
		resumed := open(t, j, "1.1.1")
		want(t, "written by the write under way", <-written, 0)
		want(t, "end of the former stream", <-former.ended, nil)
		want(t, "sent again", r.taken(), []int64{2})
		resumed.end()
	})
}

// The former stream gets a delivery at the moment in which it is resumed.
func TestFormerStreamBeginsNoRing(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, _ *resender) {
		former := j.Open("shop", "")
		resumed := j.Open("shop", former.Opening().Position)
		deliveries := make(subscription, 1)
		begun, reason := -1, error(nil)
		deliveries <- clock.Delivery{Rings: []clock.Ring{ringOf(1)},
			Done: func(_, b int, err error) { begun, reason = b, err }}
		w := &writer{}
		s := ringstream.Stream{Writer: w, Subscription: deliveries, Record: former, Timeout: time.Minute,
			Heartbeat: time.Hour}
		if err := s.Run(t.Context()); err != nil {
			t.Error(err)
		}
		if w.writes > 0 || begun > 0 || reason != nil && !errors.Is(reason, ringstream.ErrResumed) {
			t.Errorf("%d writes, %d begun: %v", w.writes, begun, reason)
		}
		former.Close()
		resumed.Close()
	})
}

// A ring may be in two sessions: the first copy was lost with its stream, the second went to another client, whose
// stream is open.
func TestEndedSessionIsPreferredToAnOpenOne(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		other, lost := open(t, j, ""), open(t, j, "")
		other.write(1, 3)
		lost.write(1, 2)
		lost.end()
		resumed := open(t, j, "1.1.1")
		want(t, "sent again", r.taken(), []int64{2})
		resumed.end()
		other.end()
	})
}

func TestFailedResendIsRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		first := open(t, j, "")
		first.write(1, 2)
		first.end()
		r.setErr(clock.Unavailable(errors.New("no database")))
		second := open(t, j, "1.1.1")
		time.Sleep(2500 * time.Millisecond)
		want(t, "tries", r.tries(), 3)
		second.end() // the next stream of the client goes on
		third := open(t, j, "1.1.1")
		r.setErr(nil)
		time.Sleep(1500 * time.Millisecond)
		want(t, "sent again", r.taken(), []int64{2})
		third.write(3)
		third.end()
		fourth := open(t, j, "3.1.1")
		want(t, "sent again, which was sent before", r.taken(), []int64{})
		fourth.end()
	})
}

func TestRefusedResendIsNotRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, j *ringstream.Journal, r *resender) {
		first := open(t, j, "")
		first.write(1, 2)
		first.end()
		r.setErr(&clock.Error{Kind: clock.ErrConflict, Code: clock.CodeStaleRing})
		second := open(t, j, "1.1.1")
		time.Sleep(time.Minute)
		want(t, "tries", r.calls, 1)
		second.end()
	})
}

func TestJournalIsBounded(t *testing.T) {
	const ofApplication, ofAll = 16 << 10, 128 << 10
	synctest.Test(t, func(t *testing.T) {
		reg, r := prometheus.NewRegistry(), &resender{}
		j, err := ringstream.NewJournal(ringstream.Deps{Alarms: r, Registerer: reg})
		if err != nil {
			t.Fatal(err)
		}
		entries := func() int {
			n, err := testutil.GatherAndCount(reg, "clockd_ringstream_journal_entries")
			if err != nil || n != 1 {
				t.Fatal(n, err)
			}
			families, _ := reg.Gather()
			for _, f := range families {
				if f.GetName() == "clockd_ringstream_journal_entries" {
					return int(f.GetMetric()[0].GetGauge().GetValue())
				}
			}
			return -1
		}
		fill := func(application string, rings int) *ringstream.Record {
			record := j.Open(application, "")
			deliveries := make(subscription, 1)
			all := make([]clock.Ring, rings)
			for i := range all {
				all[i] = ringOf(int64(i + 1))
			}
			ctx, cancel := context.WithCancel(t.Context())
			deliveries <- clock.Delivery{Rings: all, TooLateToWrite: func() bool { return true },
				Done: func(int, int, error) { cancel() }}
			s := ringstream.Stream{Writer: &writer{}, Subscription: deliveries, Record: record, Timeout: time.Minute,
				Heartbeat: time.Hour}
			if err := s.Run(ctx); err != nil {
				t.Error(err)
			}
			return record
		}
		small := fill("small", 10)
		large := fill("shop", 3*ofApplication)
		if n := entries(); n > ofApplication+11 || n < ofApplication*3/4 {
			t.Errorf("%d entries of a large application", n)
		}
		small.Close()
		if again := j.Open("small", "3.1.1"); again.Opening().Missing != 7 {
			t.Errorf("the small application misses %d", again.Opening().Missing)
		} else {
			again.Close()
		}
		large.Close()
		for i := range 20 {
			fill(fmt.Sprint(i), ofApplication/2).Close()
		}
		if n := entries(); n > ofAll || n < ofAll*3/4 {
			t.Errorf("%d entries of all applications", n)
		}
		time.Sleep(time.Minute + time.Second)
		if n := entries(); n != 0 {
			t.Errorf("%d entries after a minute without a stream", n)
		}
	})
}

func TestJournalNeedsItsParts(t *testing.T) {
	if _, err := ringstream.NewJournal(ringstream.Deps{}); err == nil {
		t.Error("a journal without parts")
	}
	reg := prometheus.NewRegistry()
	for i := range 2 {
		if _, err := ringstream.NewJournal(ringstream.Deps{Alarms: &resender{}, Registerer: reg}); (err == nil) != (i == 0) {
			t.Error(err)
		}
	}
}
