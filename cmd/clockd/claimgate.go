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
func (g *claimGate) closed() bool { return g.starting() || g.settings.Age() > settings.HoldAfter }

// starting reports whether the settings were not read yet after the first write of the node's row.
func (g *claimGate) starting() bool {
	joinedAt := g.joinedAt.Load()
	return joinedAt == nil || g.settings.Age() > time.Since(*joinedAt)
}
