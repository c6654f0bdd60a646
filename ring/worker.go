package ring

import (
	"context"
	"crypto/rand"
	"time"
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// batch is one round's work: entries that are due, of one application where own is set.
type batch struct {
	entries []entry
	own     *application
}

// result is what became of a batch.
type result struct {
	batch
	fared map[unique.Handle[string]]*fared
	again []store.Due // rows that left the claim to be rung again
	back  []entry     // not taken and to be claimed again: too many bytes for one claim, or locked elsewhere
	err   error       // of the database: the batch was not claimed, or not settled
	lost  bool        // err came after the claim: the sweep finds what is still due
}

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
	claim, err := w.claim(ctx, b.entries, begun)
	if err != nil {
		r.err = err
		return r
	}
	w.l.metrics.claimed(time.Since(begun), claim)
	r.back = notTaken(b.entries, claim)
	w.l.report(claim.Ended)
	if len(claim.Rings) == 0 {
		return r
	}
	outcomes := w.lane.Deliver(ctx, claim.Rings, Limits{Write: begun.Add(w.l.cfg.Write), Answer: begun.Add(w.l.cfg.Answer)})
	w.settle(ctx, &r, claim, outcomes, begun)
	return r
}

func (w *worker) claim(ctx context.Context, entries []entry, begun time.Time) (*store.Claim, error) {
	now, err := w.l.time.Now()
	if err != nil {
		return nil, err
	}
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
	fates := make([]clock.Fate, len(outcomes))
	unsent := 0
	for i := range outcomes {
		ring, o := &claim.Rings[i], outcomes[i]
		r.note(ring, o)
		switch {
		case o.Kind == clock.Refused && len(claim.Rings) > 1:
			o.Kind = clock.Doubtful // which of them is to blame is found out in smaller batches
		case o.Kind == clock.Untaken:
			o.Kind = clock.Unsent // whose fault it is matters to the loop, not to the row
		}
		if o.Kind == clock.Unsent {
			unsent++
		}
		fates[i] = clock.Settle(ring, o, now)
		w.l.metrics.rung(ring, outcomes[i].Kind, now)
		if fates[i].NextTryTime != clock.NoInstant {
			r.again = append(r.again, store.Due{
				ID: ring.AlarmID, NextTryTime: fates[i].NextTryTime, Shard: ring.Shard, Application: ring.Application,
			})
		}
	}
	settling := time.Now()
	if unsent == len(outcomes) {
		r.err = w.finish(ctx, begun, claim.Settler.Release)
	} else {
		r.err = w.finish(ctx, begun, func(ctx context.Context) error { return claim.Settler.Settle(ctx, now, fates) })
	}
	r.lost = r.err != nil
	w.l.metrics.settled(time.Since(settling), time.Since(begun))
}

// finish ends a claim, also while the process is stopping. A transaction has one chance; the outcome of a two-phase claim
// is tried again while it lasts.
func (w *worker) finish(ctx context.Context, begun time.Time, end func(context.Context) error) error {
	limit := begun.Add(idleInTransaction)
	if w.l.cfg.TwoPhase {
		limit = begun.Add(w.l.cfg.Lease)
	}
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), limit)
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

// note adds an outcome to how its application fared.
func (r *result) note(ring *clock.Ring, o clock.Outcome) {
	if o.Kind == clock.Confirmed && r.own == nil {
		return // sharing a batch, only trouble is worth remembering
	}
	if r.fared == nil {
		r.fared = map[unique.Handle[string]]*fared{}
	}
	name := unique.Make(ring.Application)
	f := r.fared[name]
	if f == nil {
		f = &fared{}
		r.fared[name] = f
	}
	switch o.Kind {
	case clock.Confirmed:
		f.confirmed++
		return
	case clock.Unsent:
		return
	case clock.Returned:
		f.returned++
	case clock.Refused:
		f.refused++
	default:
	}
	f.failed++
	f.reason = o.Reason
}

const (
	// maxMissed is how often an entry that a claim passed over is claimed again soon: its row may be locked by a set or cancel
	// that changes nothing. After that the sweep brings it, if it is still due.
	maxMissed = 2
	missedMS  = 20
)

// notTaken returns the entries to be claimed again: those left for their bytes at once, those passed over a little later.
func notTaken(entries []entry, claim *store.Claim) []entry {
	if len(claim.Rings)+len(claim.Ended) == len(entries) {
		return nil
	}
	taken := make(map[int64]bool, len(entries)) // true: left
	for i := range claim.Rings {
		taken[claim.Rings[i].AlarmID] = false
	}
	for i := range claim.Ended {
		taken[claim.Ended[i].ID] = false
	}
	for _, id := range claim.Left {
		taken[id] = true
	}
	var back []entry
	for _, e := range entries {
		left, seen := taken[e.id]
		switch {
		case left:
			back = append(back, e)
		case !seen && e.missed < maxMissed:
			e.missed++
			e.due += missedMS
			back = append(back, e)
		}
	}
	return back
}
