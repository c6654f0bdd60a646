package main

import (
	"slices"
	"sync/atomic"

	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
)

// abilities tells which abilities this process lacks now. Only parts that all applications share count: the loaders'
// reads and the routes to their targets.
type abilities struct {
	reads    *preload.Reads
	settings *settings.Watch
	targets  *targets
	loop     atomic.Pointer[ring.Loop] // nil until all parts are made: the loop needs the keeper, and the keeper needs abilities
}

func newAbilities(reads *preload.Reads, watch *settings.Watch, targets *targets) *abilities {
	return &abilities{reads: reads, settings: watch, targets: targets}
}

// confirmedSettings returns the number of changes of settings that the ring loop has confirmed. It does not block.
func (a *abilities) confirmedSettings() int64 {
	if loop := a.loop.Load(); loop != nil {
		return loop.Confirmed()
	}
	return 0
}

// lacks returns the missing abilities, sorted. It does not block.
func (a *abilities) lacks() (lacks []string) {
	if loop := a.loop.Load(); loop != nil {
		lacks = loop.Lacks()
	}
	lacks = append(lacks, a.targets.lacks(a.settings.Snapshot())...)
	if a.reads.Failing() {
		lacks = append(lacks, lease.AbilityRead)
	}
	slices.Sort(lacks)
	return lacks
}

// why returns why this process lacks the ability, for the log. It does not block.
func (a *abilities) why(ability string) string {
	if ability == lease.AbilityRead {
		return "reads of due alarms fail, or take too long"
	}
	if loop := a.loop.Load(); loop != nil {
		if err := loop.WhyLacks(ability); err != nil {
			return err.Error()
		}
	}
	return "the settings of an application name this target, and this node does not have it"
}
