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
	// maxParked is the most parked deliveries of a lane. A lane with as many does not open, and so gets no batch.
	maxParked = 4
	// stuckAfter is the time for which an application must be silent, while others are not, until its parked deliveries are stuck.
	stuckAfter = 2 * time.Second
	// stuckAnyway is the time after which a parked delivery without any confirm is stuck, if the broker has confirmed probes at the begin and
	// at the end of that time.
	stuckAnyway = 10 * time.Second
)

// parkingPlaces counts a lane's parked deliveries.
type parkingPlaces struct {
	taken atomic.Int32
	freed chan struct{} // capacity 1; signalled when a delivery is parked no longer
}

// awaitFree waits until a place is free. After the limit, or when ctx ends, it returns ring.ErrLaneFull.
func (p *parkingPlaces) awaitFree(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for p.taken.Load() >= maxParked {
		select {
		case <-p.freed:
		case <-ctx.Done():
			return ring.ErrLaneFull
		}
	}
	return nil
}

// parked is a delivery whose confirms are late, with its connection. No further message goes over this connection. The lane opens another
// one. It implements ring.LateRings.
type parked struct {
	delivery
	places     *parkingPlaces
	since      time.Time // time of parking
	progress   time.Time // last time at which an outcome became known; at first the time of parking
	probedFrom time.Time // since when probes that began after progress are known to be confirmed; zero: not known yet
	ended      bool
}

var _ ring.LateRings = (*parked)(nil)

// park takes the delivery and the link off the lane.
func (l *lane) park() *parked {
	now := time.Now()
	p := &parked{delivery: l.delivery, places: &l.places, since: now, progress: now}
	l.places.taken.Add(1)
	l.s.flow.begin()
	l.delivery, l.ch, l.sides = delivery{s: l.s}, nil, nil
	return p
}

// Outcomes returns the outcomes that are known now; see ring.LateRings.
func (p *parked) Outcomes() []clock.Outcome {
	if !p.ended {
		p.update()
	}
	return p.outcomes()
}

// update sets the outcomes that have become known.
func (p *parked) update() {
	before := p.unresolved()
	if before == 0 {
		return
	}
	known := make([]bool, len(p.batch))
	for i := range p.batch {
		known[i] = p.batch[i].outcome.Kind == clock.Confirmed
	}
	closed := p.closed() // first, so that all confirms before the end are noted below
	p.noteConfirms()
	p.resolveReturned()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	p.resolveFaulted(ctx)
	if closed && p.unresolved() > 0 {
		p.s.metrics.errors.WithLabelValues(kindConnection).Inc()
		p.setUnresolved(clock.Outcome{Kind: clock.Doubtful, Reason: fmt.Sprintf("connection lost before the late confirm: %s", p.link.cause(ctx))})
	}
	if p.unresolved() < before {
		p.progress, p.probedFrom = time.Now(), time.Time{}
		p.s.flow.note(&p.delivery, known)
	}
}

// closed reports whether the connection has ended.
func (p *parked) closed() bool {
	select {
	case <-p.link.done:
		return true
	default:
		return false
	}
}

// Stuck reports whether a queue of the delivery is at fault; see ring.LateRings. Either the broker has confirmed no ring of one of its
// applications since the delivery was parked, although it has confirmed rings of others for stuckAfter. Or it has confirmed nothing of the
// delivery for stuckAnyway, although it confirms probes. Probes alone prove little: they touch no queue and no disk.
func (p *parked) Stuck() bool {
	if p.ended {
		return false
	}
	p.update()
	if p.unresolved() == 0 {
		return false
	}
	for application := range p.awaitedApplications() {
		if p.s.flow.silentSince(application, p.since) {
			return true
		}
	}
	return p.stuckBesideProbes()
}

// awaitedApplications returns the set of the applications with rings without an outcome.
func (p *parked) awaitedApplications() map[string]bool {
	applications := map[string]bool{}
	for i := range p.batch {
		if p.batch[i].outcome.Kind == 0 {
			applications[p.rings[i].Application] = true
		}
	}
	return applications
}

// stuckBesideProbes reports whether the broker has confirmed nothing of the delivery for stuckAnyway, although it confirms probes. It asks for
// the probes.
func (p *parked) stuckBesideProbes() bool {
	switch {
	case p.probedFrom.IsZero() && p.s.health.passedSince(p.progress):
		p.probedFrom = time.Now()
	case !p.probedFrom.IsZero() && time.Since(p.probedFrom) < stuckAnyway:
	case !p.probedFrom.IsZero() && p.s.health.passedSince(p.probedFrom.Add(stuckAnyway)):
		return true
	default:
		p.s.requestProbe()
	}
	return false
}

// End closes the connection. Rings without a confirm are in doubt; see ring.LateRings.
func (p *parked) End() {
	if p.ended {
		return
	}
	p.update()
	p.ended = true
	if p.unresolved() > 0 {
		p.setUnresolved(clock.Outcome{Kind: clock.Doubtful, Reason: lateReason})
		p.link.kill()
	} else {
		p.link.close()
	}
	p.s.flow.end()
	p.places.taken.Add(-1)
	clock.Signal(p.places.freed)
}
