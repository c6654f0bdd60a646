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
}

// run rings what it is given until the channel is closed.
func (w *worker) run(ctx context.Context, work <-chan batch) {
	defer func() {
		if err := w.lane.Close(); err != nil {
			w.l.log.Debug("could not close a lane", "err", err)
		}
	}()
	for b := range work {
		w.l.results <- w.ring(ctx, b)
	}
}

// ring does one round: claim, deliver, settle.
func (w *worker) ring(ctx context.Context, b batch) result {
	begun := time.Now()
	r := result{batch: b}
	now, err := w.l.time.Now()
	if err != nil {
		r.err = err
		return r
	}
	claim, err := w.claim(ctx, b.entries, now, begun)
	if err != nil {
		r.err = err
		return r
	}
	w.l.metrics.claimed(time.Since(begun), claim)
	r.back = notTaken(b.entries, claim, now)
	w.l.report(claim.Ended)
	if len(claim.Rings) == 0 {
		return r
	}
	outcomes := w.lane.Deliver(ctx, claim.Rings, Limits{Write: begun.Add(w.l.cfg.Write), Answer: begun.Add(w.l.cfg.Answer)})
	w.settle(ctx, &r, claim, outcomes, begun)
	return r
}

func (w *worker) claim(ctx context.Context, entries []entry, now clock.Instant, begun time.Time) (*store.Claim, error) {
	request := store.ClaimRequest{IDs: make([]int64, len(entries)), Now: now, ClaimID: rand.Text(), MaxBytes: w.l.cfg.BatchBytes}
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

// settle writes the outcomes, and notes in r how each application fared and what is to be rung again.
func (w *worker) settle(ctx context.Context, r *result, claim *store.Claim, outcomes []clock.Outcome, begun time.Time) {
	now, err := w.l.time.Now()
	if err != nil {
		now = claim.Rings[0].RungAt // the clock was lost meanwhile: no later than the truth
	}
	r.note(claim.Rings, outcomes)
	w.l.metrics.rung(claim.Rings, outcomes, now)
	settling := time.Now()
	if unsent(outcomes) == len(outcomes) {
		r.back = append(r.back, r.released(claim.Rings, now)...)
		r.err = w.finish(ctx, begun, claim.Settler.Release)
	} else {
		fates := r.fates(claim.Rings, outcomes, now)
		r.err = w.finish(ctx, begun, func(ctx context.Context) error { return claim.Settler.Settle(ctx, now, fates) })
	}
	r.lost = r.err != nil
	w.l.metrics.settled(time.Since(settling), time.Since(begun))
}

// finish ends a claim; ctx outlives the stop of the process. A transaction has one chance; the outcome of a two-phase claim
// is tried again while it lasts.
func (w *worker) finish(ctx context.Context, begun time.Time, end func(context.Context) error) error {
	limit := begun.Add(idleInTransaction)
	if w.l.cfg.TwoPhase {
		limit = begun.Add(w.l.cfg.Lease)
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	const pause = 100 * time.Millisecond
	for {
		err := end(ctx)
		if err == nil || !w.l.cfg.TwoPhase || time.Until(limit) < pause {
			return err
		}
		time.Sleep(pause)
	}
}
