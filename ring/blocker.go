package ring

import (
	"errors"
	"fmt"
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// errNobodyAsks is the reason why alarms of an application wait whose target has not asked for rings.
var errNobodyAsks = errors.New("no worker asks for rings now")

// Blockers returns the reasons why due alarms of an addressee do not ring now, as this process knows them. Reasons of
// the process come first. It returns nil without a reason: the alarms ring in their turn. Safe for concurrent use.
func (l *Loop) Blockers(to store.Addressee) (blockers []clock.Blocker) {
	if err := l.CheckClaims(); err != nil {
		blockers = append(blockers, clock.Blocker{Code: clock.BlockedByNode, Detail: err.Error()})
	}
	if l.hold() {
		blockers = append(blockers,
			clock.Blocker{Code: clock.BlockedByNode,
				Detail: "the settings of applications were not read lately, so no ring may start"})
	}
	crews := l.routing.Load()
	if c := crews.find(to); c != nil {
		return append(blockers, l.blockersAt(c, to)...)
	}
	if crews.paused(to) {
		return append(blockers, clock.Blocker{Code: clock.BlockedByPause, Detail: errPaused.Error()})
	}
	return append(blockers, clock.Blocker{Code: clock.BlockedByRoute, Detail: "this node has no target for its alarms"})
}

// blockersAt returns at most one blocker of an addressee at the target of its crew.
func (l *Loop) blockersAt(c *crew, to store.Addressee) []clock.Blocker {
	blocked := func(code clock.BlockerCode, detail string) []clock.Blocker {
		target := c.Kind.String()
		if to.Destination != 0 {
			target = l.crews.nameOf(to)
		}
		return []clock.Blocker{{Code: code, Target: target, Detail: detail}}
	}
	if err := c.cannotRing(); err != nil {
		return blocked(clock.BlockedByTarget, err.Error())
	}
	if err := c.Target.Accepts(to.Receiver()); err != nil {
		return blocked(clock.BlockedByNoReceiver, err.Error())
	}
	if c.rationed != nil && c.rationed.Ration(to.Receiver()) <= 0 {
		return blocked(clock.BlockedByNoReceiver, errNobodyAsks.Error())
	}
	switch a := l.quarantine.stateOf(unique.Make(to)); a.Health {
	case suspect.String():
		return blocked(clock.BlockedByFailures, "its last rings failed, and are repeated after a pause: "+a.Reason)
	case held.String():
		return blocked(clock.BlockedByHold,
			fmt.Sprintf("no ring is delivered, so clockd tries one due alarm of the application every %s: %s",
				l.cfg.Probe, a.Reason))
	}
	return nil
}
