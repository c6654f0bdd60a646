package ring

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// worker rings one batch at a time, with its own lane.
type worker struct {
	loop       *Loop
	crew       *crew
	keeper     *laneKeeper
	quarantine bool  // true: the worker rings rounds of the quarantine; false: batches of healthy applications
	brokenBy   error // reason why the lane broke during the last batch; errLaneEnded if no delivery broke it
}

// laneEvent tells the loop that the lane of an idle worker has opened or was lost.
type laneEvent struct {
	crew       *crew
	quarantine bool // the worker belongs to the quarantine
	open       bool // true: opened; false: lost
}

// run rings batches until the channel is closed, also after ctx has ended. It takes no batch while its lane is not
// open, so that no claim waits for a lane to open.
func (w *worker) run(ctx context.Context, work <-chan batch) {
	defer func() {
		if err := w.keeper.lane.Close(); err != nil {
			w.loop.log.Debug("could not close a lane", "err", err)
		}
	}()
	for w.keeper.keep(ctx) {
		w.sendEvent(ctx, true)
		if !w.serve(ctx, work) {
			return
		}
	}
}

// sendEvent sends the loop an event. After ctx has ended the loop hands out no batch, and needs no event.
func (w *worker) sendEvent(ctx context.Context, open bool) {
	select {
	case w.loop.events <- laneEvent{crew: w.crew, quarantine: w.quarantine, open: open}:
	case <-ctx.Done():
	}
}

// errLaneEnded is the reason of a lane that is lost outside of a delivery.
var errLaneEnded = errors.New("it ended outside of a delivery")

// serve rings batches until the lane is lost. It reports false when the channel is closed.
func (w *worker) serve(ctx context.Context, work <-chan batch) bool {
	for {
		broken := w.keeper.lane.Broken()
		select {
		case b, more := <-work:
			if !more {
				return false
			}
			r := result{batch: b, unclaimed: true}
			w.brokenBy = errLaneEnded
			if !w.laneBroken() && !w.loop.hold() {
				r = w.ring(context.WithoutCancel(ctx), b)
			}
			if r.laneBroken = w.laneBroken(); r.laneBroken {
				w.keeper.noteLost(w.brokenBy)
			}
			w.loop.results <- r
			if r.laneBroken {
				return true
			}
		case <-broken:
			w.keeper.noteLost(errLaneEnded)
			w.sendEvent(ctx, false)
			return true
		}
	}
}

// laneBroken reports whether the worker's lane must be opened again.
func (w *worker) laneBroken() bool {
	select {
	case <-w.keeper.lane.Broken():
		return true
	default:
		return false
	}
}

// ring rings a batch in up to two claims: first the alarms that ring at least once, then the alarms that ring at most
// once.
func (w *worker) ring(ctx context.Context, b batch) result {
	r, atMostOnceIDs := w.round(ctx, b, false)
	if r.err != nil || len(atMostOnceIDs) == 0 {
		return r
	}
	if w.laneBroken() { // no claim without a lane: these entries go back to the heap
		unclaimed, _ := split(b.entries, atMostOnceIDs)
		r.putBack = append(r.putBack, unclaimed...)
		return r
	}
	atMostOnceBatch := batch{crew: b.crew, quarantined: b.quarantined, silent: b.silent, leftovers: b.leftovers,
		anyTarget: b.anyTarget, decreases: b.decreases}
	atMostOnceBatch.entries, r.entries = split(b.entries, atMostOnceIDs)
	rung, _ := w.round(ctx, atMostOnceBatch, true)
	r.atMostOnce = &rung
	return r
}

// round claims, delivers and settles. With atMostOnce it takes the alarms that ring at most once, else the others; it
// returns the ids of entries that need the other kind of claim.
func (w *worker) round(ctx context.Context, b batch, atMostOnce bool) (r result, atMostOnceIDs []int64) {
	began, suspendedSince := time.Now(), measureSuspension()
	r = result{batch: b}
	now, err := w.loop.time.AtLeast()
	if err != nil {
		r.err = err
		return r, nil
	}
	claim, err := w.claim(ctx, b, atMostOnce, now, began)
	if err != nil {
		if claim != nil {
			w.loop.countEnded(claim.Ended)
		}
		r.err = err
		return r, nil
	}
	w.loop.metrics.claimed(time.Since(began), claim)
	r.load = loadOf(time.Since(began), w.loop.cfg.WriteTimeout)
	r.putBack, r.elsewhere, r.reoffered = toClaimAgain(b.entries, claim, now), claim.Elsewhere, claim.Moved
	w.loop.countEnded(claim.Ended)
	w.loop.countOccurrences(claim.Counted)
	if len(claim.Rings) == 0 {
		return r, claim.AtMostOnce
	}
	limits := Limits{
		WriteBy: began.Add(w.loop.cfg.WriteTimeout), ReplyBy: began.Add(w.loop.cfg.ReplyTimeout),
		OnConfirmed: w.reportEarly(&r, claim.Rings),
		Suspended:   suspendedSince, Shared: r.quarantined == nil,
	}
	var late LateRings
	limits.Await = func(rings LateRings) { late = rings }
	d := &deliveredClaim{Claim: claim, committed: atMostOnce || w.crew.twoPhase, began: began, handedOver: time.Now()}
	d.outcomes = w.deliver(ctx, claim.Rings, limits)
	d.replied = time.Now()
	if r.quarantined == nil {
		r.load = max(r.load, replyLoad(time.Since(began), w.loop.cfg.ReplyTimeout, d.outcomes))
	}
	w.settle(ctx, &r, d)
	if late != nil {
		w.awaitLate(&r, d, late)
	}
	return r, claim.AtMostOnce
}

// earlyConfirm tells the loop that all rings of an application are confirmed, although its round of the quarantine goes
// on. So the application need not wait for the applications of the round that have no reply yet.
type earlyConfirm struct {
	addressee addressee
	crew      *crew
	leftover  bool // it was a round of leftovers
	rings     int  // number of the application's rings in the round
}

// reportEarly returns a function for Limits.OnConfirmed, which sends the loop an earlyConfirm per application. It
// returns nil for a batch of healthy applications.
func (w *worker) reportEarly(r *result, rings []clock.Ring) func(ring int) {
	if r.quarantined == nil {
		return nil
	}
	all, left := map[addressee]int{}, map[addressee]int{}
	for i := range rings {
		all[addresseeOf(&rings[i])]++
		left[addresseeOf(&rings[i])]++
	}
	r.confirmedEarly = map[addressee]bool{}
	return func(ring int) {
		name := addresseeOf(&rings[ring])
		if left[name]--; left[name] > 0 {
			return
		}
		c := earlyConfirm{addressee: name, crew: r.crew, leftover: r.leftovers, rings: all[name]}
		select {
		case w.loop.earlyConfirms <- c:
			r.confirmedEarly[c.addressee] = true
		default: // the loop gets it with the result of the round
		}
	}
}

// deliver hands over the rings and notes whether the lane got a reply or broke.
func (w *worker) deliver(ctx context.Context, rings []clock.Ring, limits Limits) []clock.Outcome {
	outcomes := w.keeper.lane.Deliver(ctx, rings, limits)
	w.keeper.noteDelivery(outcomes)
	if w.laneBroken() {
		w.brokenBy = errors.New(outcomes[0].Reason)
	}
	return outcomes
}

func (w *worker) claim(
	ctx context.Context, b batch, atMostOnce bool, now clock.Instant, began time.Time,
) (*store.Claim, error) {
	request := store.ClaimRequest{
		IDs: make([]int64, len(b.entries)), Now: now, ClaimID: rand.Text(), MaxBytes: w.loop.cfg.BatchBytes,
		AtMostOnce: atMostOnce, ServerClock: true,
	}
	for i := range b.entries {
		e := &b.entries[i]
		request.IDs[i] = e.id
		if named := e.addressee.Value().Named; named != (store.Named{}) {
			if request.Named == nil {
				request.Named = map[int64]store.Named{}
			}
			request.Named[e.id] = named
		}
	}
	w.claimTargets(&b, &request)
	if w.crew.twoPhase {
		request.Timeout = w.loop.cfg.ClaimTimeout
	}
	ctx, cancel := context.WithDeadline(ctx, began.Add(w.loop.cfg.WriteTimeout))
	defer cancel()
	return w.loop.database.Claim(ctx, request)
}

// deliveredClaim is a claim after its delivery.
type deliveredClaim struct {
	*store.Claim
	outcomes   []clock.Outcome // one per ring, in the order of Claim.Rings
	committed  bool            // the claim was committed before the delivery
	began      time.Time       // begin of the claim
	handedOver time.Time       // begin of the delivery
	replied    time.Time       // end of the delivery

	fates       []clock.Fate  // as settled; nil after a release
	settledNow  clock.Instant // database time that was given to the settlement
	settleBegan time.Time     // local time at which the settlement began
}

// settle writes the outcomes. It notes in r the tallies, the rows that ring again, and the released entries.
func (w *worker) settle(ctx context.Context, r *result, d *deliveredClaim) {
	now, err := w.loop.time.AtLeast()
	if err != nil {
		now = d.Rings[0].RungAt // the database's clock is unknown now; this time is not later than it
	}
	if r.quarantined != nil || !allConfirmed(d.outcomes) { // of a shared batch, only failures matter
		r.countOutcomes(d.Rings, d.outcomes)
	}
	if !w.crew.SeparateReplies {
		r.blameLate()
	}
	w.loop.metrics.rung(d.Rings, d.outcomes, now)
	w.loop.observe(Delivery{Target: w.crew.Kind, Rings: d.Rings, Outcomes: d.outcomes, Now: now, Begun: d.handedOver,
		Ended: d.replied})
	d.settleBegan = time.Now()
	if unsent(d.outcomes) == len(d.outcomes) {
		r.putBack = append(r.putBack, r.released(d.Rings, now)...)
		r.err = w.finish(ctx, d, d.Settler.Release)
	} else {
		now = max(now, d.Rings[0].RungAt+1) // a later update_time tells a settled row from a row as the claim wrote it
		d.fates, d.settledNow = r.decideFates(d.Rings, d.outcomes, now, clock.FateOf), now
		w.loop.heap.await(d.Rings, d.fates)
		r.err = w.finish(ctx, d, func(ctx context.Context) error { return d.Settler.Settle(ctx, now, d.fates) })
		if r.err == nil {
			w.loop.countFates(d.Rings, d.fates)
		}
	}
	r.settleFailed = r.err != nil
	r.load = max(r.load, loadOf(time.Since(d.settleBegan), clock.IdleInTransaction-w.loop.cfg.ReplyTimeout))
	w.loop.metrics.settled(time.Since(d.settleBegan), time.Since(d.began))
}

// finish ends a claim with end. A held transaction has one try. A committed claim is tried again until its timeout. ctx
// must outlive the stop of the process.
func (w *worker) finish(ctx context.Context, d *deliveredClaim, end func(context.Context) error) error {
	deadline := d.began.Add(clock.IdleInTransaction)
	if d.committed {
		deadline = d.began.Add(max(w.loop.cfg.ClaimTimeout, clock.IdleInTransaction))
	}
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	const pause = 100 * time.Millisecond
	for {
		err := end(ctx)
		if err == nil || !d.committed || time.Until(deadline) < pause {
			return err
		}
		time.Sleep(pause)
	}
}
