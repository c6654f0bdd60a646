package ring

import (
	"cmp"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"
	"unique"

	"github.com/clockd/clockd/clock"
)

// ward looks after the applications that are not healthy. It belongs to the goroutine of Loop.Run, but for Unwell.
type ward struct {
	cfg     Config
	heap    *Heap
	target  Target
	log     *slog.Logger
	metrics *metrics

	applications map[unique.Handle[string]]*application // those that are not healthy
	ready        []*application                         // of them, those that had a batch to ring at the last look
	turn         uint64                                 // batches so far
	cared        time.Time
	changed      bool // since publish

	unwell atomic.Pointer[[]Unwell] // what Unwell returns
}

// Unwell is an application that does not ring with the others, for people to see.
type Unwell struct {
	Application string
	Health      string // suspect, held or absent
	Reason      string
}

// carePause is how often the applications that are not healthy are looked after.
const carePause = 20 * time.Millisecond

// care looks after all: notes which have a batch to ring, whom the target accepts or does not accept any more, and has rows read
// where some can be parked again.
func (w *ward) care(now clock.Instant, local time.Time) {
	if len(w.applications) == 0 || local.Sub(w.cared) < w.pause() {
		return
	}
	w.cared = local
	w.ready = w.ready[:0]
	for name, a := range w.applications {
		accepted := w.target.Accepts(name.Value())
		switch {
		case a.health == absent && accepted:
			w.recover(a)
			continue
		case a.health == absent:
			continue
		case !accepted:
			w.change(a, absent)
			continue
		}
		w.refill(a, now, local)
		if a.ready(local) {
			w.ready = append(w.ready, a)
		}
	}
	slices.SortFunc(w.ready, func(a, b *application) int { return cmp.Compare(a.turn, b.turn) })
}

// pause returns how often care looks: less often where there are thousands.
func (w *ward) pause() time.Duration {
	return carePause * time.Duration(1+len(w.applications)/1000)
}

// refill lets rows of an application come in when what is parked runs low.
func (w *ward) refill(a *application, now clock.Instant, local time.Time) {
	switch {
	case !a.closed:
	case a.health == suspect && len(a.parked) <= maxParked/2:
		a.closed = false
		w.heap.Unhold(a.name)
	case a.health == held && len(a.parked) <= maxProbes/2 && local.Sub(a.asked) >= w.cfg.Probe:
		a.asked = local
		w.heap.Hold(a.name, a.room(), now)
	}
}

// next returns the application that has waited longest of those with a batch to ring, nil if none had one when they were
// cared for.
func (w *ward) next(local time.Time) *application {
	for len(w.ready) > 0 {
		a := w.ready[0]
		w.ready = w.ready[1:]
		if w.applications[a.name] == a && a.ready(local) {
			w.turn++
			a.turn = w.turn
			return a
		}
	}
	return nil
}

// admit reports whether e may ring with the others; if not it was parked, or has to be let go.
func (w *ward) admit(e entry) (shared, letGo bool) {
	a := w.applications[e.application]
	if a == nil {
		if w.target.Accepts(e.application.Value()) {
			return true, false
		}
		a = w.remember(e.application, absent)
	}
	if a.park(e) {
		return false, false
	}
	w.close(a)
	return false, true
}

// close has the heap leave an application's rows out.
func (w *ward) close(a *application) {
	if !a.closed {
		a.closed = true
		w.heap.Hold(a.name, 0, 0)
	}
}

func (w *ward) remember(name unique.Handle[string], h health) *application {
	a := &application{name: name, health: h, batch: w.cfg.BatchRows, turn: w.turn}
	w.applications[name], w.changed = a, true
	return a
}

// change gives an application another health, as which it keeps less.
func (w *ward) change(a *application, h health) {
	a.health, w.changed = h, true
	w.close(a)
	w.heap.letGo(a.spare())
}

// judge updates the health of the applications that r had trouble with, or that r was all about.
func (w *ward) judge(r result) {
	now := time.Now()
	for name, f := range r.fared {
		a := w.applications[name]
		if a == nil {
			if f.failed == 0 {
				continue
			}
			a = w.remember(name, suspect)
			w.log.Warn("application rings apart from the others", "application", name.Value(), "reason", f.reason)
		}
		w.judgeOne(a, *f, now, r.own == a)
	}
}

func (w *ward) judgeOne(a *application, f fared, now time.Time, own bool) {
	before, reason := a.health, a.reason
	well := a.judge(f, now, w.cfg.Probe, own)
	switch {
	case well && a.batch < w.cfg.BatchRows && before == suspect && len(a.parked) > 0:
		a.batch = min(2*a.batch, w.cfg.BatchRows)
	case well:
		w.recover(a)
	case before != held && a.health == held:
		w.log.Warn("application is held behind a probe: its rings come back", "application", a.name.Value(), "reason", a.reason)
		w.change(a, held)
	case a.reason != reason:
		w.changed = true
	}
}

// recover makes an application healthy: what was held of it is due at once.
func (w *ward) recover(a *application) {
	w.log.Info("application rings with the others again", "application", a.name.Value(), "was", a.health.String())
	delete(w.applications, a.name)
	w.changed = true
	w.heap.Unhold(a.name)
	w.heap.land(a.parked, true)
	a.parked = nil
}

// Unwell returns the applications that do not ring with the others. Safe for concurrent use.
func (w *ward) Unwell() []Unwell {
	if u := w.unwell.Load(); u != nil {
		return *u
	}
	return nil
}

// publish makes what has changed known outside the loop.
func (w *ward) publish() {
	if !w.changed {
		return
	}
	w.changed = false
	unwell := make([]Unwell, 0, len(w.applications))
	counts := map[health]int{}
	for name, a := range w.applications {
		unwell = append(unwell, Unwell{Application: name.Value(), Health: a.health.String(), Reason: a.reason})
		counts[a.health]++
	}
	w.unwell.Store(&unwell)
	w.metrics.unwell(counts)
}
