package rabbit

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// A late delivery without a new outcome is given up after one of these times, if the broker has confirmed something
// else at the begin and at the end of that time.
const (
	// stuckBesideRings counts if the broker confirms rings of the same application in time, on other connections. Then
	// the host or the connection is at fault. Only the rings of this application are given up.
	stuckBesideRings = 20 * time.Second
	// stuckBesideProbes counts if the broker confirms probes. They touch no queue and no disk. So it is longer than the
	// disk of a broker usually stands still.
	stuckBesideProbes = time.Minute
)

// latePlaces counts a lane's late deliveries. A lane without a free place does not open, and so gets no batch.
type latePlaces struct {
	all   int
	taken atomic.Int32
	freed chan struct{} // capacity 1; signalled when a delivery has ended
}

// awaitFree waits until a place is free. After the limit, or when ctx ends, it returns ring.ErrLaneFull.
func (p *latePlaces) awaitFree(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for int(p.taken.Load()) >= p.all {
		select {
		case <-p.freed:
		case <-ctx.Done():
			return ring.ErrLaneFull
		}
	}
	return nil
}

// lateDelivery is a delivery whose confirms are late, with its connection. No further message goes over this
// connection. The lane opens another one. It implements ring.LateRings.
type lateDelivery struct {
	delivery
	places       *latePlaces
	since        time.Time // time at which it was set aside
	progress     time.Time // last time at which an outcome became known; at first the time at which it was set aside
	besideProbes proof
	besideRings  map[string]proof // by application that waits
	ended        bool
	gaveUp       bool // rings of silent applications are in doubt, although the connection lives
	// othersFrom has the first confirm in time of another application since the setting aside that Stuck saw, by
	// application that waits.
	othersFrom map[string]time.Time
}

var _ ring.LateRings = (*lateDelivery)(nil)

// setAside takes the delivery and the link off the lane.
func (l *lane) setAside() *lateDelivery {
	now := time.Now()
	d := &lateDelivery{delivery: l.current, places: &l.places, since: now, progress: now,
		othersFrom: map[string]time.Time{}, besideRings: map[string]proof{}}
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
	ctx, cancel := context.WithTimeout(context.Background(), wire.CloseTimeout)
	defer cancel()
	d.resolveFaulted(ctx)
	if closed && d.unresolved() > 0 {
		d.s.metrics.errors.WithLabelValues(kindConnection).Inc()
		d.setUnresolved(clock.Outcome{Kind: clock.Doubtful,
			Reason: fmt.Sprintf("connection lost before the late confirm: %s", d.link.Cause(ctx))})
	}
	if d.unresolved() < before {
		d.progress, d.besideProbes = time.Now(), proof{}
		clear(d.besideRings)
		d.s.lastConfirms.noteLate(&d.delivery, known, d.since)
	}
	d.giveUp()
}

// giveUp puts the rings of applications in doubt whose queue alone is silent, or whose other rings are confirmed.
func (d *lateDelivery) giveUp() {
	for application := range d.awaitedApplications() {
		switch {
		case d.silentAlone(application):
			d.s.lastConfirms.noteSilent(application, d.since)
		case d.passedOver(application):
		default:
			continue
		}
		d.gaveUp = true
		for i := range d.states {
			if d.states[i].outcome.Kind == 0 && d.rings[i].Application == application {
				d.states[i].outcome = clock.Outcome{Kind: clock.Doubtful, Reason: givenUpReason}
			}
		}
	}
}

// givenUpReason is the reason of a ring that was given up before the other rings of its delivery.
const givenUpReason = "no confirm, while other rings were confirmed"

// closed reports whether the connection has ended.
func (d *lateDelivery) closed() bool {
	select {
	case <-d.link.Done():
		return true
	default:
		return false
	}
}

// proof is what the broker confirms while it confirms nothing of a late delivery.
type proof struct {
	from time.Time // when a confirm since the delivery's progress was first seen; zero: not yet
}

// needsConfirm reports whether the proof waits for a confirm at the begin or at the end of that time.
func (p *proof) needsConfirm(limit time.Duration) bool {
	return p.from.IsZero() || time.Since(p.from) >= limit
}

// lasts reports whether the broker has confirmed something at the begin and at the end of a time since the progress.
// confirmedSince reports whether it has since a time.
func (p *proof) lasts(progress time.Time, limit time.Duration, confirmedSince func(time.Time) bool) bool {
	if !p.from.IsZero() {
		return time.Since(p.from) >= limit && confirmedSince(p.from.Add(limit))
	}
	if confirmedSince(progress) {
		p.from = time.Now()
	}
	return false
}

// Stuck reports whether the broker has confirmed nothing of the delivery for stuckBesideProbes, although it confirms
// probes, which Stuck requests; see ring.LateRings.
func (d *lateDelivery) Stuck() bool {
	if d.ended {
		return false
	}
	d.update()
	if d.unresolved() == 0 {
		return false
	}
	if d.besideProbes.lasts(d.progress, stuckBesideProbes, d.s.health.passedSince) {
		return true
	}
	if d.besideProbes.needsConfirm(stuckBesideProbes) {
		d.s.requestProbe()
	}
	return false
}

// passedOver reports whether the broker has confirmed nothing of the delivery for stuckBesideRings, although it
// confirms rings of the application in time on other connections, and also for longer than any late confirm took.
func (d *lateDelivery) passedOver(application string) bool {
	confirms, p := &d.s.lastConfirms, d.besideRings[application]
	lasts := p.lasts(d.progress, stuckBesideRings,
		func(t time.Time) bool { return confirms.inTimeSince(application, t) })
	d.besideRings[application] = p
	return lasts && time.Since(d.since) > confirms.longest()+stuckBesideRings
}

// silentAlone reports whether the broker has confirmed no ring of the application since the delivery was set aside,
// although it confirms the rings of others in time: for the patience with the application now, and for longer than any
// late confirm took. A broker that is slow for all applications confirms others late, too, each delivery at a moment of
// its own.
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
	patience := confirms.patienceWith(application)
	return others.Sub(from) > patience && others.Sub(d.since) > longest+patience
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

// End closes the connection. Rings without a confirm are in doubt; see ring.LateRings.
func (d *lateDelivery) End() {
	if d.ended {
		return
	}
	d.update()
	d.ended = true
	if d.unresolved() > 0 || d.gaveUp {
		d.setUnresolved(clock.Outcome{Kind: clock.Doubtful, Reason: lateReason})
		d.link.Kill()
	} else {
		d.link.Close()
	}
	d.s.lastConfirms.end()
	d.places.taken.Add(-1)
	clock.Signal(d.places.freed)
}
