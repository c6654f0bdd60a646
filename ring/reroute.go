package ring

import (
	"slices"
	"time"
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// rerouting is a router that replaces the present one, and the applications whose route it changes.
type rerouting struct {
	router  Router // nil: the router stays
	changed []store.Addressee
	confirm int64 // version of the settings to confirm (Confirm); 0: none
}

// Reroute replaces the router. changed has all addressees for which the routers differ. From then on, new batches of
// these addressees ring by their new route. Batches under way end on their old route, and so do rings whose outcome is
// unknown. Reroute does not wait: the loop replaces the router at its next step. Before Run, it replaces it when Run
// begins. Safe for concurrent use.
func (l *Loop) Reroute(router Router, changed []store.Addressee) {
	l.rerouteMu.Lock()
	defer l.rerouteMu.Unlock()
	l.pendingReroute.router = router
	l.pendingReroute.changed = append(l.pendingReroute.changed, changed...)
	clock.Signal(l.rerouted)
}

// applyReroute replaces the router if Reroute was called, and notes the version to confirm if Confirm was.
func (l *Loop) applyReroute() {
	l.rerouteMu.Lock()
	r := l.pendingReroute
	l.pendingReroute = rerouting{}
	l.rerouteMu.Unlock()
	if r.confirm > 0 {
		l.confirmations = append(l.confirmations, confirmation{version: r.confirm, lastBatch: l.lastBatch})
	}
	if r.router == nil {
		return
	}
	slices.SortFunc(r.changed, store.Addressee.Compare)
	l.crews.router = r.router
	l.routing.Store(l.crews.frozen(r.router))
	l.heap.reroute(l.crews.routeIndex(r.router), slices.Compact(r.changed))
	for _, name := range slices.Compact(r.changed) {
		if a := l.quarantine.watched[unique.Make(name)]; a != nil {
			l.quarantine.forget(a)
		}
	}
	l.quarantine.reviewed = time.Time{}
}

// frozen returns the crews with a router that does not change. Any goroutine may ask them for routes.
func (cs *crews) frozen(router Router) *crews { return &crews{all: cs.all, router: router} }

// routeIndex returns a function that returns the index of an application's route.
func (cs *crews) routeIndex(router Router) func(to store.Addressee) int {
	frozen := cs.frozen(router) // the heap calls the function on other goroutines
	return func(to store.Addressee) int { return frozen.of(to).index }
}

// reroute replaces the function that returns the index of an application's route. Waiting entries of the changed
// applications move to the room of their new route; entries without a place there are missing.
func (h *Heap) reroute(routeIndex func(to store.Addressee) int, changed []store.Addressee) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orders.routeIndex = routeIndex
	for _, name := range changed {
		to := unique.Make(name)
		for i := range h.shares {
			h.shares[i].move(to)
		}
		h.addRecheck(to)
	}
	h.wakeLoaders()
	clock.Signal(h.wake)
}

// move takes out the application's entries and puts them in again, into the room of the application's present route.
func (s *share) move(to addressee) {
	q := s.queues[to]
	if q == nil || q.room == &s.rooms[s.orders.indexOf(to)] {
		return
	}
	q.room.yielded = false // as in withdraw
	entries := slices.Clone(q.entries)
	for i := range slices.Backward(entries) {
		s.removeAt(q, i) // the last one, so that no other entry moves
	}
	slices.SortFunc(entries, byTime)
	for _, e := range entries {
		s.put(e)
	}
}
