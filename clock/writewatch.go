package clock

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// failingAfter is how long all writes must fail before Service.Writable returns an error.
	failingAfter = 5 * time.Second
	// failingTries is how many writes must have failed by then.
	failingTries = 3
	// probeEvery is the time between two tries to write while writes fail. A request's write is such a try.
	probeEvery = time.Second
)

// writeWatch knows whether writes succeed. While they fail it probes by itself, because a node that is not ready gets no requests.
type writeWatch struct {
	prober WriteProber // nil: only requests show whether writes succeed
	time   *Timebase
	log    *FaultLog
	wake   chan struct{} // capacity 1; wakes run when writes begin to fail

	mu    sync.Mutex
	since time.Time // time of the first failure since the last success; zero: there was none
	last  time.Time // time of the last failure
	tries int       // failures since the last success
	err   error     // last failure since the last success; nil: there was none
}

func newWriteWatch(log *slog.Logger, prober WriteProber, tb *Timebase) *writeWatch {
	return &writeWatch{
		prober: prober, time: tb, log: NewFaultLog(log, "could not write", "writes work again"), wake: make(chan struct{}, 1),
	}
}

// note records the result of a write transaction or a probe.
func (w *writeWatch) note(err error) {
	if err == nil {
		w.succeeded()
		return
	}
	w.log.Failed(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.err = time.Now(), err
	if w.tries == 0 {
		w.since = w.last
		Signal(w.wake)
	}
	w.tries++
}

func (w *writeWatch) succeeded() {
	w.mu.Lock()
	failed := w.tries > 0
	w.since, w.tries, w.err = time.Time{}, 0, nil
	w.mu.Unlock()
	if failed {
		w.log.Succeeded()
	}
}

// failing returns an error if all writes of the last failingAfter have failed, else nil.
func (w *writeWatch) failing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tries < failingTries || time.Since(w.since) < failingAfter {
		return nil
	}
	return fmt.Errorf("all %d writes of the last %s failed: %w", w.tries, time.Since(w.since).Round(time.Second), w.err)
}

// run probes while writes fail, until ctx ends.
func (w *writeWatch) run(ctx context.Context) {
	for w.prober != nil {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		for wait := probeEvery; wait > 0; wait = w.step(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

// step probes unless a write has failed within probeEvery. It returns the wait until the next step, 0 if writes succeed.
func (w *writeWatch) step(ctx context.Context) time.Duration {
	w.mu.Lock()
	tries, quiet := w.tries, time.Since(w.last)
	w.mu.Unlock()
	switch {
	case tries == 0:
		return 0
	case quiet < probeEvery:
		return probeEvery - quiet
	}
	if err := w.probe(ctx); ctx.Err() == nil {
		w.note(err)
	}
	return probeEvery
}

func (w *writeWatch) probe(ctx context.Context) error {
	now, err := w.time.Now()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, failingAfter)
	defer cancel()
	return w.prober.ProbeWrite(ctx, now)
}
