package ring

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// worker rings batches one at a time, with its own lane.
type worker struct {
	l    *Loop
	lane Lane
	open chan struct{} // capacity 1: the target has changed
}

// run rings what it is given until the channel is closed, also after ctx has ended. When there is nothing, it keeps its lane open.
func (w *worker) run(ctx context.Context, work <-chan batch) {
	defer func() {
		if err := w.lane.Close(); err != nil {
			w.l.log.Debug("could not close a lane", "err", err)
		}
	}()
	for {
		select {
		case b, more := <-work:
			if !more {
				return
			}
			w.l.results <- w.ring(context.WithoutCancel(ctx), b)
		case <-w.open:
			w.openLane(ctx)
		}
	}
}

// openLane opens the lane in no more time than a delivery would have for it.
func (w *worker) openLane(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.l.cfg.Write)
	defer cancel()
	w.lane.Open(ctx)
}

// ring rings a batch, and then, apart from the others, what of it rings at most once.
func (w *worker) ring(ctx context.Context, b batch) result {
	r, once := w.round(ctx, b, false)
	if r.err != nil || len(once) == 0 {
		return r
	}
	apart := batch{own: b.own}
	apart.entries, r.entries = split(b.entries, once)
	rung, _ := w.round(ctx, apart, true)
	r.once = &rung
	return r
}

// round claims, delivers and settles: with once what rings at most once, else the others.
func (w *worker) round(ctx context.Context, b batch, once bool) (r result, apart []int64) {
	begun := time.Now()
	r = result{batch: b}
	now, err := w.l.time.Now()
	if err != nil {
		r.err = err
		return r, nil
	}
	claim, err := w.claim(ctx, b.entries, once, now, begun)
	if err != nil {
		r.err = err
		return r, nil
	}
	w.l.metrics.claimed(time.Since(begun), claim)
	r.back = notTaken(b.entries, claim, now)
	w.l.report(claim.Ended)
	if len(claim.Rings) == 0 {
		return r, claim.Once
	}
	outcomes := w.lane.Deliver(ctx, claim.Rings, Limits{Write: begun.Add(w.l.cfg.Write), Answer: begun.Add(w.l.cfg.Answer)})
	w.settle(ctx, &r, &tried{claim, outcomes, once || w.l.cfg.TwoPhase, begun})
	return r, claim.Once
}

func (w *worker) claim(ctx context.Context, entries []entry, once bool, now clock.Instant, begun time.Time) (*store.Claim, error) {
	request := store.ClaimRequest{
		IDs: make([]int64, len(entries)), Now: now, ClaimID: rand.Text(), MaxBytes: w.l.cfg.BatchBytes, Once: once,
	}
	for i := range entries {
		request.IDs[i] = entries[i].id
	}
	if w.l.cfg.TwoPhase {
		request.Lease = w.l.cfg.Lease
	}
	ctx, cancel := context.WithDeadline(ctx, begun.Add(w.l.cfg.Write))
	defer cancel()
	return w.l.claimer.Claim(ctx, request)
}

// tried is a claim that was delivered.
type tried struct {
	*store.Claim
	outcomes  []clock.Outcome
	committed bool // before it was delivered
	begun     time.Time
}

// settle writes the outcomes, and notes in r how each application fared and what is to be rung again.
func (w *worker) settle(ctx context.Context, r *result, t *tried) {
	now, err := w.l.time.Now()
	if err != nil {
		now = t.Rings[0].RungAt // the clock was lost meanwhile: no later than the truth
	}
	r.note(t.Rings, t.outcomes)
	w.l.metrics.rung(t.Rings, t.outcomes, now)
	settling := time.Now()
	if unsent(t.outcomes) == len(t.outcomes) {
		r.back = append(r.back, r.released(t.Rings, now)...)
		r.err = w.finish(ctx, t, t.Settler.Release)
	} else {
		fates := r.fates(t.Rings, t.outcomes, now)
		r.err = w.finish(ctx, t, func(ctx context.Context) error { return t.Settler.Settle(ctx, now, fates) })
	}
	r.lost = r.err != nil
	w.l.metrics.settled(time.Since(settling), time.Since(t.begun))
}

// finish ends a claim; ctx outlives the stop of the process. A transaction has one chance; the outcome of a claim that was
// committed is tried again for as long as a lease lasts.
func (w *worker) finish(ctx context.Context, t *tried, end func(context.Context) error) error {
	limit := t.begun.Add(idleInTransaction)
	if t.committed {
		limit = t.begun.Add(max(w.l.cfg.Lease, idleInTransaction))
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	const pause = 100 * time.Millisecond
	for {
		err := end(ctx)
		if err == nil || !t.committed || time.Until(limit) < pause {
			return err
		}
		time.Sleep(pause)
	}
}
