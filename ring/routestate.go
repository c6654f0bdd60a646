package ring

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// RouteState is the state of a route.
type RouteState struct {
	Name        string
	Unusable    error // reason why the target is not usable; nil: it is usable
	CannotRing  error // reason why this process cannot hand rings to the target; nil: it can
	OpenLanes   int   // number of open lanes
	Lanes       int   // number of all lanes
	LaneFailure error // last failure of a lane that does not work; nil: all lanes work
}

// Routes returns the state of each route, in the order of Deps.Routes. Safe for concurrent use.
func (l *Loop) Routes() []RouteState {
	var states []RouteState
	for _, c := range l.crews.all {
		states = append(states, c.state())
	}
	return states
}

// Lacks returns the abilities that this node lacks, sorted: the abilities of routes that cannot ring. Safe for
// concurrent use.
func (l *Loop) Lacks() []string {
	var lacks []string
	for _, c := range l.crews.all {
		if c.Ability != "" && c.cannotRing() != nil {
			lacks = append(lacks, c.Ability)
		}
	}
	slices.Sort(lacks)
	return lacks
}

// WhyLacks returns why no route with the ability can ring; nil if one can, or none has it. Safe for concurrent use.
func (l *Loop) WhyLacks(ability string) error {
	for _, c := range l.crews.all {
		if c.Ability == ability {
			return c.cannotRing()
		}
	}
	return nil
}

// anyRouteDown reports whether a route cannot ring. Safe for concurrent use.
func (l *Loop) anyRouteDown() bool {
	return slices.ContainsFunc(l.crews.all, func(c *crew) bool { return c.cannotRing() != nil })
}

func (c *crew) state() RouteState {
	now := time.Now()
	s := RouteState{Name: c.Name, Unusable: c.Target.Usable(), CannotRing: c.cannotRing(), Lanes: len(c.lanes)}
	for _, k := range c.lanes {
		lane := k.state(now)
		if lane.open {
			s.OpenLanes++
		}
		if !lane.working && lane.err != nil {
			s.LaneFailure = lane.err
		}
	}
	return s
}

// errOpening is cannotRing's reason while the first try to open a lane goes on.
var errOpening = errors.New("the first try to open it has not ended")

// cannotRing returns nil while this process can hand rings to the target. Otherwise it returns the reason: the target
// is not usable, or no lane of the workers for healthy applications has worked for laneTrial.
func (c *crew) cannotRing() error {
	if err := c.Target.Usable(); err != nil {
		return err
	}
	now := time.Now()
	lastWorked, reason := time.Time{}, errOpening
	for _, k := range c.shared() {
		s := k.state(now)
		if s.working || s.lastWorked.IsZero() {
			return nil
		}
		if s.lastWorked.After(lastWorked) {
			lastWorked = s.lastWorked
		}
		if s.err != nil {
			reason = s.err
		}
	}
	if now.Sub(lastWorked) < laneTrial {
		return nil
	}
	return fmt.Errorf("no lane to the target is open: %w", reason)
}
