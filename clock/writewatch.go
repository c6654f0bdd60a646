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
	// failingWrites is how many writes must have failed by then.
	failingWrites = 3
	// probeEvery is the time between two tries to write while writes fail. A request's write is such a try.
	probeEvery = time.Second
)

// faultLogEvery is the least time between two log lines about failed writes, even if writes succeed in between.
const faultLogEvery = 10 * time.Second

// writeWatch knows whether writes succeed. While they fail it probes by itself, because a node that is not ready gets
// no requests. It logs the first failure, at most one failure in faultLogEvery, and the first success after a logged
// failure.
type writeWatch struct {
	prober WriteProber // nil: only requests show whether writes succeed
	time   *Timebase
	log    *slog.Logger
	wake   chan struct{} // capacity 1; wakes run when writes begin to fail

	mu          sync.Mutex
	since       time.Time // time of the first failure since the last success; zero: there was none
	last        time.Time // time of the last failure
	failures    int       // failures since the last success
	err         error     // last failure since the last success; nil: there was none
	logged      time.Time // time of the last log line about a failure; zero: there was none
	suppressed  int       // failures since that line
	faultLogged bool      // a failure since the last success was logged
}

func newWriteWatch(log *slog.Logger, prober WriteProber, tb *Timebase) *writeWatch {
	return &writeWatch{prober: prober, time: tb, log: log, wake: make(chan struct{}, 1)}
}

// note records the result of a write transaction or a probe.
func (w *writeWatch) note(err error) {
	if err != nil {
		w.failed(err)
		return
	}
	w.succeeded()
}

func (w *writeWatch) failed(err error) {
	if suppressed, mustLog := w.countFailure(err); mustLog {
		w.log.Warn("could not write", "err", err, "suppressed", suppressed)
	}
}

// countFailure counts a failure. It reports whether to log it, with the number of failures that were not logged since
// the last line.
func (w *writeWatch) countFailure(err error) (suppressed int, mustLog bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.err = time.Now(), err
	if w.failures == 0 {
		w.since = w.last
		Signal(w.wake)
	}
	w.failures++
	if !w.logged.IsZero() && w.last.Sub(w.logged) < faultLogEvery {
		w.suppressed++
		return 0, false
	}
	suppressed = w.suppressed
	w.logged, w.suppressed, w.faultLogged = w.last, 0, true
	return suppressed, true
}

func (w *writeWatch) succeeded() {
	w.mu.Lock()
	failures, since, mustLog := w.failures, w.since, w.faultLogged
	w.since, w.failures, w.err, w.faultLogged = time.Time{}, 0, nil, false
	w.mu.Unlock()
	if mustLog {
		w.log.Info("writes work again", "count", failures, "took", time.Since(since).Round(time.Millisecond))
	}
}

// failing returns an error if all writes of the last failingAfter have failed, else nil.
func (w *writeWatch) failing() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failures < failingWrites || time.Since(w.since) < failingAfter {
		return nil
	}
	return fmt.Errorf("all %d writes of the last %s failed: %w", w.failures, time.Since(w.since).Round(time.Second),
		w.err)
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

// step probes unless a write has failed within probeEvery. It returns the wait until the next step, 0 if writes
// succeed.
func (w *writeWatch) step(ctx context.Context) time.Duration {
	w.mu.Lock()
	failures, quiet := w.failures, time.Since(w.last)
	w.mu.Unlock()
	switch {
	case failures == 0:
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
	now, err := w.time.AtLeast()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, failingAfter)
	defer cancel()
	return w.prober.ProbeWrite(ctx, now)
}
