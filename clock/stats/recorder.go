package stats

import (
	"context"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
)

// maxLive is the most applications that the current step counts apart.
const maxLive = 1000

// Time is the database's clock.
type Time interface {
	AtLeast() (clock.Instant, error)
}

// Recorder counts what a node does, and keeps the steps of the last hour and day. All methods are safe for concurrent
// use.
type Recorder struct {
	time  Time
	ended chan struct{} // capacity 1: a step has ended

	mu           sync.Mutex
	total        live
	applications map[string]*live         // applications of the current step, at most maxLive
	seen         map[string]clock.Instant // begin of an application's last step with a set or cancel; at most maxSeen
	began        int64                    // number of the first step of Hour
	current      int64                    // number of the current step of Hour; 0: the time was not known yet
	hour, day    *series
}

// NewRecorder returns a Recorder. It counts at once, and ends steps while Run runs.
func NewRecorder(t Time) *Recorder {
	return &Recorder{
		time: t, ended: make(chan struct{}, 1), applications: map[string]*live{}, seen: map[string]clock.Instant{},
		hour: newSeries(Hour), day: newSeries(Day),
	}
}

// Run ends each step in time, until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for {
		timer := time.NewTimer(r.advance())
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
	}
}

// advance ends the current step if its time is over, and returns the time until the end of the next one.
func (r *Recorder) advance() time.Duration {
	now, err := r.time.AtLeast()
	if err != nil {
		return time.Second
	}
	step := Hour.stepAt(now)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == 0 || Hour.begin(r.current).Sub(now) > setBack { // the first known time, or a clock that was set back far
		r.began, r.current, r.hour, r.day = step, step, newSeries(Hour), newSeries(Day)
	}
	if step > r.current {
		r.endStep()
		r.current = step
		clock.Signal(r.ended)
	}
	end := Hour.begin(r.current + 1)
	return min(max(end.Sub(now), time.Millisecond), Hour.Step)
}

// endStep moves the counts of the current step into the history. The caller holds mu.
func (r *Recorder) endStep() {
	ended := Step{Total: r.total.finished(), Applications: make(map[string]*Figures, len(r.applications))}
	for name, l := range r.applications {
		f := l.finished()
		ended.Applications[name] = &f
		if _, known := r.seen[name]; f.Sets+f.Cancels+f.Refused > 0 && (known || len(r.seen) < maxSeen) {
			r.seen[name] = Hour.begin(r.current)
		}
	}
	ended.keepBusiest()
	r.total, r.applications = live{}, map[string]*live{}
	for _, s := range []*series{r.hour, r.day} {
		s.add(s.stepAt(Hour.begin(r.current)), &ended, true)
	}
}

// of calls count for the total and for the application of the current step. The caller holds mu.
func (r *Recorder) of(application string, count func(*live)) {
	count(&r.total)
	l := r.applications[application]
	if l == nil {
		if len(r.applications) == maxLive {
			return
		}
		l = &live{}
		r.applications[application] = l
	}
	count(l)
}

// Op counts a set or a cancel. It ignores other ops.
func (r *Recorder) Op(op clock.Op, verdict clock.Verdict) {
	if op.Set == nil && op.Cancel == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.of(op.Key().Application, func(l *live) {
		switch {
		case verdict == clock.Refuse:
			l.Refused++
		case op.Set != nil:
			l.Sets++
		default:
			l.Cancels++
		}
	})
}

// Rung counts the outcomes of rings; now is the database's time at which they were known. It ignores rings that were
// not sent and awaited rings.
func (r *Recorder) Rung(rings []clock.Ring, outcomes []clock.Outcome, now clock.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range rings {
		ring, kind := &rings[i], outcomes[i].Kind
		switch {
		case kind == clock.Confirmed:
			r.of(ring.Application, func(l *live) {
				l.Rings++
				if ring.FirstTry() {
					l.late(max(0, now.Sub(ring.RingAt)))
				}
			})
		case kind != clock.Awaited && !kind.NotSent():
			r.of(ring.Application, func(l *live) { l.Failed++ })
		}
	}
}

// takeSeen returns when applications were seen since the last call, and the begin of the open step.
func (r *Recorder) takeSeen() (seen map[string]clock.Instant, now clock.Instant) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, r.seen = r.seen, map[string]clock.Instant{}
	return seen, Hour.begin(r.current)
}

// known returns the number of the first step of a range, and of the open one; 0: the database's clock was never known.
func (r *Recorder) known(of Range) (first, open int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return of.stepAt(Hour.begin(r.began)), of.stepAt(Hour.begin(r.current))
}

// steps returns count steps from a step on. Steps that were never reached, and steps that are too old, are empty.
func (r *Recorder) steps(of Range, from int64, count int) []Step {
	r.mu.Lock()
	defer r.mu.Unlock()
	if of == Day {
		return r.day.steps(from, count)
	}
	return r.hour.steps(from, count)
}

// endOpen moves the counts of the open step into the history. Later counts belong to the same step.
func (r *Recorder) endOpen() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != 0 {
		r.endStep()
	}
}
