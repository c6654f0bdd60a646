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

// A late confirm may also mean that the whole broker is slow. So late rings are given up only when a witness proves that
// the broker works: something that it has confirmed at the begin and at the end of a time in which it has confirmed
// nothing of them. There are three witnesses, each with its time:
//
//   - rings of other applications, in time: the patience with the application (silentAlone);
//   - rings of the same application, in time and on other connections: stuckBesideRings (passedOver);
//   - probes: stuckBesideProbes (Stuck).
//
// Beside rings, the late rings must also be that much later than any late confirm was. The first two give up the rings
// of one application, the third all rings of the delivery. Without a witness, the caller waits as long as it likes.
const (
	// stuckBesideRings passes when the host or the connection is at fault.
	stuckBesideRings = 20 * time.Second
	// stuckBesideProbes is longer than the disk of a broker usually stands still: probes touch no queue and no disk.
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
	besideRings  map[string]*proof // by application that waits
	besideOthers map[string]*proof // the same
	ended        bool
	gaveUp       bool // rings of an application are in doubt, although the connection lives
}

var _ ring.LateRings = (*lateDelivery)(nil)

// setAside takes the delivery and the link off the lane.
func (l *lane) setAside() *lateDelivery {
	now := time.Now()
	d := &lateDelivery{delivery: l.current, places: &l.places, since: now, progress: now,
		besideRings: map[string]*proof{}, besideOthers: map[string]*proof{}}
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
			if d.states[i].outcome.Kind == 0 && d.rings[i].Receiver() == application {
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

// proof is the begin of the time in which the broker confirms a witness, and nothing of a late delivery.
type proof struct {
	from time.Time // when a confirm of the witness was first seen; zero: not yet
}

// needsConfirm reports whether the proof waits for a confirm at the begin or at the end of that time.
func (p *proof) needsConfirm(limit time.Duration) bool {
	return p.from.IsZero() || time.Since(p.from) >= limit
}

// lasts reports whether the broker has confirmed the witness at the begin and at the end of a time after since.
// confirmedSince reports whether it has since a time.
func (p *proof) lasts(since time.Time, limit time.Duration, confirmedSince func(time.Time) bool) bool {
	if !p.from.IsZero() {
		return time.Since(p.from) >= limit && confirmedSince(p.from.Add(limit))
	}
	if confirmedSince(since) {
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
// confirms rings of the application in time on other connections.
func (d *lateDelivery) passedOver(application string) bool {
	return d.outlasted(d.besideRings, application, d.progress, stuckBesideRings, d.s.lastConfirms.inTimeSince)
}

// silentAlone reports whether the broker has confirmed no ring of the application since the delivery was set aside,
// although it confirms the rings of others in time, for the patience with the application now. A broker that is slow
// for all applications confirms others late, too, each delivery at a moment of its own.
func (d *lateDelivery) silentAlone(application string) bool {
	confirms := &d.s.lastConfirms
	if confirms.confirmedSince(application, d.since) {
		delete(d.besideOthers, application)
		return false
	}
	return d.outlasted(d.besideOthers, application, d.since, confirms.patienceWith(application), confirms.othersInTimeSince)
}

// outlasted reports whether the broker has confirmed rings as witnesses against the application's late rings, at the
// begin and at the end of a time after since, and for longer than any late confirm took.
func (d *lateDelivery) outlasted(
	proofs map[string]*proof, application string, since time.Time, limit time.Duration,
	confirmedSince func(application string, t time.Time) bool,
) bool {
	p := proofs[application]
	if p == nil {
		p = new(proof)
		proofs[application] = p
	}
	return p.lasts(since, limit, func(t time.Time) bool { return confirmedSince(application, t) }) &&
		time.Since(d.since) > d.s.lastConfirms.longest()+limit
}

// awaitedApplications returns the set of the applications with rings without an outcome.
func (d *lateDelivery) awaitedApplications() map[string]bool {
	applications := map[string]bool{}
	for i := range d.states {
		if d.states[i].outcome.Kind == 0 {
			applications[d.rings[i].Receiver()] = true
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
