package rabbit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

const (
	// maxLate is the most late deliveries of a lane. A lane with as many does not open, and so gets no batch.
	maxLate = 4
	// stuckAfter is how long the rings of other applications must have been confirmed in time before a late delivery is stuck.
	stuckAfter = 2 * time.Second
	// stuckBesideProbesAfter is the time after which a late delivery without a new outcome is stuck, if the broker has confirmed probes at the
	// begin and at the end of that time.
	stuckBesideProbesAfter = 10 * time.Second
)

// latePlaces counts a lane's late deliveries.
type latePlaces struct {
	taken atomic.Int32
	freed chan struct{} // capacity 1; signalled when a delivery has ended
}

// awaitFree waits until a place is free. After the limit, or when ctx ends, it returns ring.ErrLaneFull.
func (p *latePlaces) awaitFree(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for p.taken.Load() >= maxLate {
		select {
		case <-p.freed:
		case <-ctx.Done():
			return ring.ErrLaneFull
		}
	}
	return nil
}

// lateDelivery is a delivery whose confirms are late, with its connection. No further message goes over this connection. The lane opens another
// one. It implements ring.LateRings.
type lateDelivery struct {
	delivery
	places     *latePlaces
	since      time.Time // time at which it was set aside
	progress   time.Time // last time at which an outcome became known; at first the time at which it was set aside
	probedFrom time.Time // when Stuck first saw a confirmed probe that began after progress; zero: not yet
	ended      bool
	// othersFrom has the first confirm in time of another application since the setting aside that Stuck saw, by application that waits.
	othersFrom map[string]time.Time
}

var _ ring.LateRings = (*lateDelivery)(nil)

// setAside takes the delivery and the link off the lane.
func (l *lane) setAside() *lateDelivery {
	now := time.Now()
	d := &lateDelivery{delivery: l.current, places: &l.places, since: now, progress: now, othersFrom: map[string]time.Time{}}
	l.places.taken.Add(1)
	l.s.lastConfirms.begin()
	l.current, l.link, l.ch, l.sides = delivery{s: l.s}, nil, nil, nil
	return d
}

// Outcomes returns the outcomes that are known now; see ring.LateRings.
func (d *lateDelivery) Outcomes() []clock.Outcome {
	if !d.ended {
		d.update()
	}
	return d.outcomes()
}

// update sets the outcomes that have become known.
func (d *lateDelivery) update() {
	before := d.unresolved()
	if before == 0 {
		return
	}
	known := make([]bool, len(d.states))
	for i := range d.states {
		known[i] = d.states[i].outcome.Kind == clock.Confirmed
	}
	closed := d.closed() // first, so that all confirms before the end are noted below
	d.noteConfirms()
	d.resolveReturned()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	d.resolveFaulted(ctx)
	if closed && d.unresolved() > 0 {
		d.s.metrics.errors.WithLabelValues(kindConnection).Inc()
		d.setUnresolved(clock.Outcome{Kind: clock.Doubtful, Reason: fmt.Sprintf("connection lost before the late confirm: %s", d.link.cause(ctx))})
	}
	if d.unresolved() < before {
		d.progress, d.probedFrom = time.Now(), time.Time{}
		d.s.lastConfirms.noteLate(&d.delivery, known, d.since)
	}
}

// closed reports whether the connection has ended.
func (d *lateDelivery) closed() bool {
	select {
	case <-d.link.done:
		return true
	default:
		return false
	}
}

// Stuck reports whether a queue of the delivery is at fault; see ring.LateRings. Either one of its applications alone has no confirm
// (silentAlone). Or the broker has confirmed nothing of the delivery for stuckBesideProbesAfter, although it confirms probes. Probes alone
// prove little: they touch no queue and no disk.
func (d *lateDelivery) Stuck() bool {
	if d.ended {
		return false
	}
	d.update()
	if d.unresolved() == 0 {
		return false
	}
	for application := range d.awaitedApplications() {
		if d.silentAlone(application) {
			return true
		}
	}
	return d.checkBesideProbes()
}

// silentAlone reports whether the broker has confirmed no ring of the application since the delivery was set aside, although it confirms the
// rings of others in time: for stuckAfter now, and for longer than any late confirm took. A broker that is slow for all applications confirms
// others late, too, each delivery at a moment of its own.
func (d *lateDelivery) silentAlone(application string) bool {
	confirms := &d.s.lastConfirms
	others, longest := confirms.othersInTime(application)
	if confirms.confirmedSince(application, d.since) || !others.After(d.since) {
		delete(d.othersFrom, application)
		return false
	}
	from, seen := d.othersFrom[application]
	if !seen {
		d.othersFrom[application] = others
		return false
	}
	return others.Sub(from) > stuckAfter && others.Sub(d.since) > longest+stuckAfter
}

// awaitedApplications returns the set of the applications with rings without an outcome.
func (d *lateDelivery) awaitedApplications() map[string]bool {
	applications := map[string]bool{}
	for i := range d.states {
		if d.states[i].outcome.Kind == 0 {
			applications[d.rings[i].Application] = true
		}
	}
	return applications
}

// checkBesideProbes reports whether the broker has confirmed nothing of the delivery for stuckBesideProbesAfter, although it confirms probes.
// It also requests these probes, and sets probedFrom.
func (d *lateDelivery) checkBesideProbes() bool {
	switch {
	case d.probedFrom.IsZero() && d.s.health.passedSince(d.progress):
		d.probedFrom = time.Now()
	case !d.probedFrom.IsZero() && time.Since(d.probedFrom) < stuckBesideProbesAfter:
	case !d.probedFrom.IsZero() && d.s.health.passedSince(d.probedFrom.Add(stuckBesideProbesAfter)):
		return true
	default:
		d.s.requestProbe()
	}
	return false
}

// End closes the connection. Rings without a confirm are in doubt; see ring.LateRings.
func (d *lateDelivery) End() {
	if d.ended {
		return
	}
	d.update()
	d.ended = true
	if d.unresolved() > 0 {
		d.setUnresolved(clock.Outcome{Kind: clock.Doubtful, Reason: lateReason})
		d.link.kill()
	} else {
		d.link.close()
	}
	d.s.lastConfirms.end()
	d.places.taken.Add(-1)
	clock.Signal(d.places.freed)
}
