package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/store"
)

// blockers tells people why due alarms do not ring. It knows what this node knows, and reads nothing.
type blockers struct {
	loop     *ring.Loop
	keeper   *lease.Keeper
	settings *settings.Watch
	targets  *targets
	timebase *clock.Timebase
}

func newBlockers(
	loop *ring.Loop, keeper *lease.Keeper, watch *settings.Watch, targets *targets, tb *clock.Timebase,
) *blockers {
	return &blockers{loop: loop, keeper: keeper, settings: watch, targets: targets, timebase: tb}
}

// ownedLate is how late an alarm of another node is at least before its reads name that node. Until then it may just
// ring.
const ownedLate = time.Second

// ofAlarm returns the reasons why an alarm does not ring although it is due, or has failed tries; none for other
// alarms.
func (b *blockers) ofAlarm(a *clock.Alarm) []clock.Blocker {
	now, err := b.timebase.AtLeast()
	if err != nil || a.State != clock.Scheduled || a.NextTryTime > now && a.RetryTimes == 0 {
		return nil
	}
	to := store.Addressee{Application: a.Application, Named: store.NamedBy(&a.Content)}
	known := b.of(to)
	if b.keeper.Rings(a.Shard, to) {
		return known
	}
	known = slices.DeleteFunc(known, func(blocker clock.Blocker) bool { // the others are about this node
		return blocker.Code != clock.BlockedByPause && blocker.Code != clock.BlockedByNoReceiver
	})
	if len(known) == 0 && a.NextTryTime.Add(ownedLate) < now {
		known = []clock.Blocker{{Code: clock.BlockedElsewhere,
			Detail: fmt.Sprintf("the node with shard %d rings it, and knows why it waits: see clockd nodes", a.Shard)}}
	}
	return known
}

// ofApplication returns the reasons why due alarms of an application do not ring now, whatever target they name.
func (b *blockers) ofApplication(application string) []clock.Blocker {
	addressees := []store.Addressee{{Application: application}}
	if s := b.settings.Snapshot().Of(application); s != nil {
		for _, target := range s.Allowed {
			addressees = append(addressees, store.Named{Target: target}.Of(application))
		}
		s.EachLivingDestination(func(number int, target clock.TargetKind) {
			addressees = append(addressees, store.Named{Target: target, Destination: number}.Of(application))
		})
	}
	var all []clock.Blocker
	for _, to := range addressees {
		for _, blocker := range b.of(to) {
			if !slices.Contains(all, blocker) {
				all = append(all, blocker)
			}
		}
	}
	return all
}

// of returns the reasons why due alarms of an addressee do not ring now.
func (b *blockers) of(to store.Addressee) []clock.Blocker {
	known := b.loop.Blockers(to)
	if b.keeper.HasClients(to) {
		known = slices.DeleteFunc(known,
			func(blocker clock.Blocker) bool { return blocker.Code == clock.BlockedByNoReceiver })
	}
	for i := range known {
		if known[i].Code == clock.BlockedByRoute {
			known[i].Detail = b.targets.whyNoRoute(b.settings.Snapshot(), to)
		}
	}
	if err := b.keeper.Failing(); err != nil {
		known = slices.Insert(known, 0, clock.Blocker{Code: clock.BlockedByNode, Detail: err.Error()})
	}
	return known
}
