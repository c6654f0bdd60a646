package ring

import (
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// leftoverPatience is the time for which rings in doubt wait for a former target that does not accept their
// application. Then they go to the application's present target.
const leftoverPatience = time.Minute

// leftoverKey identifies the leftovers of one application at one route.
type leftoverKey struct {
	name addressee
	crew *crew
}

// leaveElsewhere takes the entries that the claim left to other targets out of r.entries. Entries of tries in doubt at
// another route wait there for a round of leftovers; they stay in flight. The others go back to the heap.
func (l *Loop) leaveElsewhere(r *result) {
	if len(r.elsewhere) == 0 {
		return
	}
	now, _ := l.time.AtLeast() // after an error, entries without room are popped again at once
	targets := make(map[int64]clock.TargetKind, len(r.elsewhere))
	for _, e := range r.elsewhere {
		targets[e.ID] = e.Target
	}
	var rest []entry
	for _, e := range r.entries {
		target, left := targets[e.id]
		c := l.crews.ofKind(target)
		switch {
		case !left:
			rest = append(rest, e)
		case c == nil:
			rest, r.putBack = append(rest, e), append(r.putBack, e)
		case !l.quarantine.keepLeftover(e, c, time.Now()):
			e.popAt = max(e.popAt, now.Add(l.cfg.Probe))
			rest, r.putBack = append(rest, e), append(r.putBack, e)
		}
	}
	r.entries = rest
}

// otherKinds returns the kinds of all targets except the crew's own.
func (cs *crews) otherKinds(c *crew) (kinds []clock.TargetKind) {
	for _, other := range cs.all {
		if other != c && other.Kind != clock.NoTarget {
			kinds = append(kinds, other.Kind)
		}
	}
	return kinds
}

// ofKind returns the crew of the route to that kind of target; nil if there is none.
func (cs *crews) ofKind(kind clock.TargetKind) *crew {
	for _, c := range cs.all {
		if kind != clock.NoTarget && c.Kind == kind {
			return c
		}
	}
	return nil
}

// keepLeftover parks the entry of a try in doubt at a route that is not its application's route any more. It reports
// false if there is no room.
func (q *quarantine) keepLeftover(e entry, c *crew, localNow time.Time) bool {
	if c.parked >= q.crews.share(maxParkedAll) {
		return false
	}
	key := leftoverKey{e.addressee, c}
	a := q.leftovers[key]
	if a == nil {
		if c.quarantined >= q.crews.share(maxQuarantined) {
			return false
		}
		c.quarantined++
		a = &watched{
			name: e.addressee, crew: c, leftover: true, health: suspect, batchRows: q.cfg.BatchRows,
			lastRound: q.rounds, lastActive: localNow,
			acceptedAt: localNow,
		}
		q.leftovers[key] = a
	}
	a.parked = append(a.parked, e)
	c.parked++
	return true
}

// reviewLeftovers adds the leftovers that can have a batch to q.ready, and forgets finished leftovers.
func (q *quarantine) reviewLeftovers(localNow time.Time) {
	for key, a := range q.leftovers {
		switch {
		case a.batches > 0:
		case q.crews.paused(a.name.Value()):
			q.dropLeftovers(a)
		case len(a.parked) == 0:
			delete(q.leftovers, key)
			a.crew.quarantined--
		case !a.crew.usable:
			a.acceptedAt = localNow // a target that is away is waited for
		case a.crew.Target.Accepts(a.name.Value().Receiver()) == nil:
			a.acceptedAt, a.substitute = localNow, nil
			q.addIfReady(a, localNow)
		case localNow.Sub(a.acceptedAt) >= leftoverPatience:
			q.substitute(a, localNow)
		}
	}
}

// substitute lets the leftovers ring by the present route of their application, because their own target does not
// accept it. If the present target does not accept it either, they wait in the database.
func (q *quarantine) substitute(a *watched, localNow time.Time) {
	c := q.crews.find(a.name.Value())
	if c != nil && c.usable && c.Target.Accepts(a.name.Value().Receiver()) == nil {
		a.substitute = c
		q.addIfReady(a, localNow)
		return
	}
	q.dropLeftovers(a)
}

// dropLeftovers leaves the leftovers in the database. A loader finds them again.
func (q *quarantine) dropLeftovers(a *watched) {
	a.crew.parked -= len(a.parked)
	q.heap.drop(a.parked)
	a.parked = nil
}

func (q *quarantine) addIfReady(a *watched, localNow time.Time) {
	if a.ready(localNow) {
		q.ready = append(q.ready, a)
	}
}

// ringsBy returns the crew that rings the application's parked entries.
func (a *watched) ringsBy() *crew {
	if a.substitute != nil {
		return a.substitute
	}
	return a.crew
}

// knows reports whether a is still in the quarantine.
func (q *quarantine) knows(a *watched) bool {
	if a.leftover {
		return q.leftovers[leftoverKey{a.name, a.crew}] == a
	}
	return q.watched[a.name] == a
}

// noteLeftovers updates the health of leftovers after a round. It tells only how soon the next round is.
func (q *quarantine) noteLeftovers(r result, localNow time.Time) {
	for _, a := range r.quarantined {
		t := r.tallies[a.name]
		if t == nil || !a.noteTally(*t, localNow, q.cfg.Probe, true) {
			continue
		}
		a.health, a.batchRows, a.nextTry, a.undeliveredRounds, a.unconfirmedRounds = suspect, q.cfg.BatchRows, localNow, 0, 0
	}
}

// claimTargets fills in the fields of a claim that tell which rows it takes.
func (w *worker) claimTargets(b *batch, request *store.ClaimRequest) {
	request.Target = w.crew.Kind
	if !b.anyTarget {
		request.OtherTargets, request.InDoubtOnly = w.loop.crews.otherKinds(w.crew), b.leftovers
	}
}
