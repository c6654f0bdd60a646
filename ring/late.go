package ring

import (
	"context"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

const (
	// sharedMaxLate is the most late deliveries of a worker for healthy applications.
	sharedMaxLate = 4
	// quarantineMaxLate is the most late deliveries of a worker of the quarantine. One silent round is under way at a
	// time, and lasts up to Config.ReplyTimeout. So silent queues that are awaited for a minute leave places for the
	// rounds of other applications.
	quarantineMaxLate = 48
	// awaitPoll is the time between two polls of the late replies of a claim.
	awaitPoll = 200 * time.Millisecond
	// lateLimit is the longest wait for a late reply.
	lateLimit = 10 * time.Minute
	// lateStopLimit is the longest wait for late replies after Run was told to end, if EndBy was not called.
	lateStopLimit = 2 * time.Second
	// lateStopGrace is the time for the last settlements after the wait for late replies. Together with the time of a
	// delivery this bounds the stop.
	lateStopGrace = time.Second
	// afterRun is the part of the time of EndBy that Run leaves to the parts that end later: the broker's connections,
	// and the store.
	afterRun = time.Second
	// lateSettleLimit bounds one settlement of late rings.
	lateSettleLimit = clock.IdleInTransaction
	// lateConnections is the number of database connections that all late claims together use.
	lateConnections = 1
)

// lateClaim is the rest of a claim after its settlement: the rings whose replies are late. Its goroutine writes each
// outcome as soon as it is known, and postpones the time at which the other rings are due again. So no ring is
// published a second time while its reply may come, unless another node owns its shard and the time cannot be
// postponed. If the process dies, the rings are due again after at most clock.AwaitTimeout. The wait ends when the
// target shows that it works but does not reply to these rings, after lateLimit, and shortly before the end of a
// process that was told to stop: the rings are then in doubt, and due at once.
type lateClaim struct {
	loop      *Loop
	settler   store.Settler
	late      LateRings
	rings     []clock.Ring  // rings without a final outcome, as settler has them
	fates     []clock.Fate  // fate of each ring in rings, as last written
	indexes   []int         // index of each ring in the delivery
	written   clock.Instant // database time of the last settlement
	dueAgain  time.Time     // local time at which the rows of these rings are due again
	waitUntil time.Time     // local time at which the wait ends
	crew      *crew         // crew that delivered the rings
	stopping  bool
	toRepeat  *lateSettlement // a settlement that failed and is repeated; nil: none
}

// lateSettlement is one settlement of late rings. After an error it is repeated unchanged, because it may have been
// committed.
type lateSettlement struct {
	result
	now       clock.Instant
	begun     time.Time // local time when now was read
	outcomes  []clock.Outcome
	fates     []clock.Fate
	postpones bool // the due time of the rings without a final outcome is postponed
}

// lateTallies are the tallies of late outcomes.
type lateTallies struct {
	byAddressee map[addressee]*tally
	crew        *crew
}

// awaitLate waits for the late replies of a delivery in a goroutine of its own. If the settlement failed, nothing is
// awaited: rows of at-least-once alarms are due again by themselves, and rows of at-most-once alarms stay rung and in
// doubt.
func (w *worker) awaitLate(r *result, d *deliveredClaim, late LateRings) {
	if r.err != nil {
		late.End()
		w.loop.offerAwaited(d.Rings)
		return
	}
	l := &lateClaim{
		loop: w.loop, settler: d.Settler, late: late, rings: d.Rings, fates: d.fates,
		dueAgain:  d.settleBegan.Add(clock.AwaitTimeout),
		waitUntil: d.settleBegan.Add(lateLimit), written: d.settledNow, crew: w.crew,
	}
	for i := range d.Rings {
		l.indexes = append(l.indexes, i)
		d.Rings[i].Payload = nil // the target has it, and waiting rings must not hold memory
	}
	l.keepAwaited()
	w.loop.metrics.awaited.Add(float64(len(l.rings)))
	w.loop.lateClaims.Go(l.run)
}

// offerAwaited lets the rows of rings that are no longer awaited ring again, if they were read meanwhile.
func (l *Loop) offerAwaited(rings []clock.Ring) {
	if skipped := l.heap.endAwait(rings); len(skipped) > 0 {
		l.feeder.Offer(skipped)
	}
}

// EndBy says when the process ends. Call it before the context of Run ends. Run then waits for late replies as long as
// that time allows.
func (l *Loop) EndBy(t time.Time) { l.endBy.Store(&t) }

// lateStop returns when the wait for late replies ends, after Run was told to end. delivery is the time that deliveries
// under way may still take before they wait for late replies.
func (l *Loop) lateStop(delivery time.Duration) time.Time {
	if by := l.endBy.Load(); by != nil {
		return by.Add(-afterRun - lateStopGrace)
	}
	return time.Now().Add(delivery + lateStopLimit)
}

// run settles late rings until none is left.
func (l *lateClaim) run() {
	defer l.late.End()
	ticker := time.NewTicker(awaitPoll)
	defer ticker.Stop()
	stop := l.loop.stopping
	for len(l.rings) > 0 {
		select {
		case <-ticker.C:
			l.step()
		case <-stop:
			stop, l.stopping = nil, true
			l.waitUntil = l.loop.lateStop(0)
		}
	}
}

// step settles the outcomes that are known now, if there are any, or if the rings would soon be due again.
func (l *lateClaim) step() {
	if time.Now().After(l.waitUntil) || l.late.Stuck() {
		l.late.End()
	}
	if l.toRepeat == nil && !l.dueSoon() && !slices.ContainsFunc(l.outcomes(), isFinal) {
		return
	}
	if acquired, noTimeLeft := l.acquireWrite(); !acquired {
		if noTimeLeft {
			l.late.End() // no subscriber writes a ring that may ring again
			l.loop.log.Warn("no time was left to write late outcomes of rings", "count", len(l.rings))
			l.forget()
		}
		return
	}
	defer l.releaseWrite()
	err := l.settle()
	if err == nil {
		return
	}
	l.loop.metrics.databaseErrors.Inc()
	if l.stopping { // the rows are due again by themselves
		l.loop.log.Warn("could not write late outcomes of rings", "count", len(l.rings), "err", err)
		l.forget()
	}
}

// acquireWrite waits until the claim may write: all late claims share one database connection. The caller then calls
// releaseWrite. acquireWrite gives up when the process is told to stop; then a later step tries again. It also gives up
// when the time for the stop is over: then the claim has no time left.
func (l *lateClaim) acquireWrite() (acquired, noTimeLeft bool) {
	stop := l.loop.stopping
	if l.stopping {
		stop = nil
	}
	select {
	case l.loop.lateWrites <- struct{}{}:
		return true, false
	case <-stop:
		return false, false
	case <-l.loop.lateContext.Done():
		return false, true
	}
}

func (l *lateClaim) releaseWrite() { <-l.loop.lateWrites }

// forget ends the claim without a settlement. The rows are due again by themselves.
func (l *lateClaim) forget() {
	l.loop.metrics.awaited.Sub(float64(len(l.rings)))
	l.loop.offerAwaited(l.rings)
	l.rings = nil
}

func isFinal(o clock.Outcome) bool { return o.Kind != clock.Awaited }

// dueSoon reports whether the rings are soon due again.
func (l *lateClaim) dueSoon() bool { return time.Until(l.dueAgain) < clock.AwaitTimeout/2 }

// outcomes returns the present outcome of each ring that had no final outcome at the last settlement.
func (l *lateClaim) outcomes() []clock.Outcome {
	all := l.late.Outcomes()
	outcomes := make([]clock.Outcome, len(l.indexes))
	for i, index := range l.indexes {
		outcomes[i] = all[index]
	}
	return outcomes
}

// settle writes the outcomes that are known now, or repeats the settlement that failed.
func (l *lateClaim) settle() error {
	s := l.toRepeat
	if s == nil {
		now, err := l.loop.time.AtLeast()
		if err != nil {
			return err
		}
		s = l.decide(max(now, l.written+1))
	}
	l.loop.heap.await(l.rings, s.fates)
	ctx, cancel := context.WithTimeout(l.loop.lateContext, lateSettleLimit)
	defer cancel()
	if err := l.settler.Settle(ctx, s.now, s.fates); err != nil {
		l.toRepeat = s
		return err
	}
	l.toRepeat = nil
	l.noteSettled(s)
	return nil
}

// decide returns the settlement of the outcomes that are known now.
func (l *lateClaim) decide(now clock.Instant) *lateSettlement {
	s := &lateSettlement{now: now, begun: time.Now(), outcomes: l.outcomes(), postpones: l.dueSoon()}
	s.fates = s.decideFates(l.rings, s.outcomes, now, clock.LateFateOf)
	for i := range s.fates {
		if !isFinal(s.outcomes[i]) && !s.postpones {
			s.fates[i] = l.fates[i] // an unchanged fate writes nothing; see store.Settler
		}
	}
	return s
}

// noteSettled takes a settlement that is committed.
func (l *lateClaim) noteSettled(s *lateSettlement) {
	if s.postpones {
		l.dueAgain = s.begun.Add(clock.AwaitTimeout)
	}
	l.loop.countFates(l.rings, s.fates)
	s.countOutcomes(l.rings, s.outcomes)
	l.loop.metrics.rung(l.rings, s.outcomes, s.now)
	l.loop.observe(Delivery{Target: l.crew.Kind, Rings: l.rings, Outcomes: s.outcomes, Now: s.now, Late: true})
	l.loop.metrics.lateReplied(s.outcomes)
	l.loop.feeder.Offer(l.loop.heap.expectReoffer(s.reoffered))
	l.sendTallies(lateTallies{byAddressee: s.tallies, crew: l.crew})
	before := len(l.rings)
	l.fates, l.written = s.fates, s.now
	l.keepAwaited()
	l.loop.metrics.awaited.Sub(float64(before - len(l.rings)))
}

// sendTallies sends the tallies to the loop, unless the loop stops.
func (l *lateClaim) sendTallies(t lateTallies) {
	if len(t.byAddressee) == 0 {
		return
	}
	select {
	case l.loop.lateTallies <- t:
	case <-l.loop.stopping:
	}
}

// keepAwaited forgets the rings that have a final outcome.
func (l *lateClaim) keepAwaited() {
	var rings, final []clock.Ring
	var fates []clock.Fate
	var indexes []int
	for i := range l.fates {
		if !isFinal(l.fates[i].Outcome) {
			rings, fates, indexes = append(rings, l.rings[i]), append(fates, l.fates[i]), append(indexes, l.indexes[i])
		} else {
			final = append(final, l.rings[i])
		}
	}
	l.loop.heap.endAwait(final) // their rows have changed
	l.rings, l.fates, l.indexes = rings, fates, indexes
}
