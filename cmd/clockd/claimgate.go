package main

import (
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock/settings"
)

// claimGate says whether this process may start claims. It may if it has read the settings after its node's row was
// first written, and at most settings.HoldAfter ago. So a node that nobody waited for does not ring a paused
// application: it was not in the list of nodes yet, or it was stopped, and its leases have ended.
type claimGate struct {
	settings *settings.Watch
	joinedAt atomic.Pointer[time.Time] // time after the first write of the node's row; nil: not written yet
}

func newClaimGate(watch *settings.Watch) *claimGate { return &claimGate{settings: watch} }

// joined notes that the node's row is written, and reads the settings again.
func (g *claimGate) joined() {
	now := time.Now()
	g.joinedAt.Store(&now)
	g.settings.Refresh()
}

// closed reports whether no claim may start.
func (g *claimGate) closed() bool {
	age, joinedAt := g.settings.Age(), g.joinedAt.Load()
	return joinedAt == nil || age > settings.HoldAfter || age > time.Since(*joinedAt)
}

// unseen is the time after the first write of a node's row in which changes may arrive whose maker has not seen it: it
// looked at the nodes earlier. A change takes at most storeTimeout.
const unseen = storeTimeout + 30*time.Second

// isNew reports whether the node's row may not be seen yet by all who change settings.
func (g *claimGate) isNew() bool {
	joinedAt := g.joinedAt.Load()
	return joinedAt == nil || time.Since(*joinedAt) < unseen
}
