package storetest

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

func job(id string, at clock.Instant) clock.JobRecord {
	return clock.JobRecord{
		ID: strings.Repeat("J", 26-len(id)) + id, CreatedAt: at, EndedAt: clock.NoInstant, Revision: 1,
		Document: `{"näme":"` + strings.Repeat("x", 70_000) + `"}`,
	}
}

// actOn returns an act on a job.
func actOn(j clock.JobRecord, action string) clock.Act {
	return clock.Act{At: j.CreatedAt, Action: action, Application: "shop", Subject: j.ID, After: "{}"}
}

func (f *fixture) changeJob(j clock.JobRecord) bool {
	f.t.Helper()
	written, err := f.ChangeJob(f.t.Context(), j, actOn(j, "bulk_stop"))
	ok(f.t, err, "change a job")
	return written
}

// testJobs demands that jobs read back as written, and that a job with another revision is not written. The acts are
// those of the changes that were written.
func testJobs(t *testing.T, f *fixture) {
	a, b, c := job("A", t0), job("B", t0+1), job("C", t0+2)
	for _, j := range []clock.JobRecord{b, a, c} {
		ok(t, f.AddJob(t.Context(), j, actOn(j, "bulk_start")), "add a job")
	}
	list := func(list func(context.Context, int) ([]clock.JobRecord, error), limit int) []clock.JobRecord {
		jobs, err := list(t.Context(), limit)
		ok(t, err, "list jobs")
		return jobs
	}
	same(t, "open jobs", list(f.OpenJobs, 2), []clock.JobRecord{a, b})
	same(t, "jobs", list(f.Jobs, 2), []clock.JobRecord{c, b})
	next := b
	next.Owner, next.LeaseUntil, next.EndedAt, next.Document = "NODE", t0+99, t0+50, "{}"
	same(t, "written", f.changeJob(next), true)
	same(t, "written with an old revision", f.changeJob(next), false)
	next.Revision = 2
	got, err := f.Job(t.Context(), b.ID)
	ok(t, err, "job")
	same(t, "job", got, next)
	same(t, "open jobs after an end", list(f.OpenJobs, 10), []clock.JobRecord{a, c})
	unknown := job("X", t0)
	same(t, "written without a row", f.changeJob(unknown), false)
	if _, err := f.Job(t.Context(), unknown.ID); !errors.Is(err, clock.ErrNotFound) {
		t.Errorf("an unknown job: %v", err)
	}
	var acts []string
	for _, act := range f.acts(clock.ActsQuery{Application: "shop", Limit: 10}) {
		acts = append(acts, act.Action+" "+act.Subject[len(act.Subject)-1:])
	}
	same(t, "acts", acts, []string{"bulk_stop B", "bulk_start C", "bulk_start A", "bulk_start B"})
	ok(t, f.DeleteJobs(t.Context(), t0+50), "delete jobs")
	same(t, "jobs after the deletion of earlier ends", len(list(f.Jobs, 10)), 3)
	ok(t, f.DeleteJobs(t.Context(), t0+51), "delete jobs")
	same(t, "jobs after the deletion", list(f.Jobs, 10), []clock.JobRecord{c, a})
}

// testRacingJobs demands that one of several concurrent writers of one revision wins.
func testRacingJobs(t *testing.T, f *fixture) {
	j := job("A", t0)
	ok(t, f.AddJob(t.Context(), j, actOn(j, "bulk_start")), "add a job")
	for round := range 10 {
		j.Revision = int64(round + 1)
		var g errgroup.Group
		var won atomic.Int64
		for range 4 {
			g.Go(func() error {
				written, err := f.ChangeJob(t.Context(), j)
				if written {
					won.Add(1)
				}
				return err
			})
		}
		ok(t, g.Wait(), "change a job")
		same(t, "writers that won", won.Load(), 1)
	}
}

// testPast demands that sets keep the generations that they replace, and kicks and discards the end that they change,
// and that nothing else changes these.
func testPast(t *testing.T, f *fixture) {
	ids := f.set(t0, set("a", t0))
	f.claim(t0, ids...).settle(t0+1, everyRing(clock.Confirmed))
	f.set(t0+2, set("a", t0+1000))
	f.set(t0+3, cancel("a"))
	f.set(t0+4, set("a", t0+2000))
	f.set(t0+5, pause("a"))
	f.set(t0+6, resume("a"))
	f.claim(t0+2000, ids...).settle(t0+2001, everyRing(clock.Nacked))
	none := clock.NoInstant
	same(t, "what the sets overwrote", f.get("a").Past.List(), []clock.PastGeneration{
		{
			Generation: 1, RingAt: t0, State: clock.Rung, RingNo: 1, RungAt: t0, FinishedAt: t0, AnsweredAt: none,
			ReplacedAt: t0 + 2,
		},
		{
			Generation: 2, RingAt: t0 + 1000, State: clock.Cancelled, RungAt: none, FinishedAt: t0 + 3, AnsweredAt: none,
			ReplacedAt: t0 + 4,
		},
	})
	dead, expired := f.arrange("dead", "dead"), f.arrange("expired", "expired")
	f.set(t0+7, clock.Op{Kick: &clock.Kick{Key: dead.Key}}, clock.Op{Discard: &clock.Discard{Key: expired.Key}})
	for _, ended := range []clock.Alarm{dead, expired} {
		past := f.get(ended.BusinessID).Past.List()
		last := past[len(past)-1]
		if last.State != ended.State || last.FinishedAt != ended.FinishedAt || last.ReplacedAt != t0+7 {
			t.Errorf("%s: the past is %+v", ended.BusinessID, past)
		}
	}
}

// testShift demands that a shift rewrites the alarm with its next generation, and does so once.
func testShift(t *testing.T, f *fixture) {
	f.set(t0, set("a", t0+1000, latestRingAt(t0+9000), priority(4)), set("b", t0+1000))
	f.set(t0, pause("b"))
	shift := func(id string) clock.Op {
		return clock.Op{Shift: &clock.Shift{Key: key(id), By: 5e9, UnchangedSince: t0}}
	}
	before := *f.get("a")
	d := f.write(t0+1, shift("a"), shift("b"), shift("none"))
	same(t, "verdicts", []clock.Verdict{d[0].Verdict, d[1].Verdict, d[2].Verdict},
		[]clock.Verdict{clock.Replace, clock.Replace, clock.Refuse})
	want := before
	want.Generation, want.RingAt, want.NextTryTime, want.LatestRingAt, want.UpdateTime = 2, t0+6000, t0+6000, t0+14_000, t0+1
	want.Past = d[0].Alarm.Past
	f.want(want)
	if b := f.get("b"); b.State != clock.Paused || b.RingAt != t0+6000 || b.Generation != 2 {
		t.Errorf("paused alarm: %+v", b)
	}
	same(t, "verdict of a repeated shift", f.write(t0+2, shift("a"))[0].Verdict, clock.Refuse)
	f.want(want)
}
