package ring

import (
	"errors"
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Route is the way of rings to one target.
type Route struct {
	Name   string // name in logs and checks; unique in a process
	Target Target // no other route has it; comparable
	// Kind is the kind of the target. A try in doubt is repeated at the route of its kind. No other route has it,
	// unless it is clock.NoTarget.
	Kind clock.TargetKind
	// HoldsClaims reports whether claims may hold their transaction during a delivery. Claims of the route are
	// two-phase if it is false, or if the database does not hold claims.
	HoldsClaims bool
	// SeparateReplies reports whether each application has its own way to reply. Then a late reply says nothing about
	// the target or a queue: late rings are awaited in every round, and no application is suspect for them (blameLate).
	SeparateReplies bool
	// Ability names what a node lacks while the route cannot ring. No other route has it. It is empty if the target
	// needs no connection that all applications share.
	Ability string
}

// PausedRoute is the route of an addressee whose application is paused. No crew has it: the alarms wait in the
// database, without a claim or a counted try, tries in doubt too. Only the expiry pass ends alarms of a paused
// application, at their latest_ring_at.
var PausedRoute = &Route{Name: "paused"}

// Router returns the route of an addressee, one of Deps.Routes or PausedRoute. The result for an addressee never
// changes; Loop.Reroute replaces the router. For nil or any other route the loop logs an error, and does not ring the
// addressee: its alarms wait in the database, uncounted. A Router must not block. Any goroutine may call it.
type Router func(to store.Addressee) *Route

// validateRoutes returns nil for valid routes, else all broken rules, joined.
func validateRoutes(workers int, routes []*Route, router Router) error {
	var errs []error
	names := map[string]bool{}
	for i, r := range routes {
		if r.Target == nil {
			errs = append(errs, fmt.Errorf("ring route %q has no target", r.Name))
		}
		if r.Name == "" || names[r.Name] {
			errs = append(errs,
				fmt.Errorf("ring routes must have different names, but %q is empty or comes twice", r.Name))
		}
		names[r.Name] = true
		for _, other := range routes[:i] {
			errs = append(errs, validatePair(other, r))
		}
	}
	if len(routes) == 0 {
		errs = append(errs, errors.New("rings need a route"))
	}
	if len(routes) > 1 && router == nil {
		errs = append(errs, errors.New("several ring routes need a router"))
	}
	if len(routes) > workers {
		errs = append(errs,
			fmt.Errorf("%d ring workers are too few for %d routes: each route needs one that the other routes cannot take", workers, len(routes)))
	}
	return errors.Join(errs...)
}

// validatePair returns an error if two routes have something in common that only one route may have.
func validatePair(a, b *Route) error {
	switch {
	case a.Target != nil && a.Target == b.Target:
		return fmt.Errorf("ring routes %q and %q have the same target", a.Name, b.Name)
	case a.Kind != clock.NoTarget && a.Kind == b.Kind:
		return fmt.Errorf("ring routes %q and %q have the same kind of target %q", a.Name, b.Name, a.Kind)
	case a.Ability != "" && a.Ability == b.Ability:
		return fmt.Errorf("ring routes %q and %q have the same ability %q", a.Name, b.Name, a.Ability)
	}
	return nil
}

// Connections returns the number of database connections that the claims of that many routes use at once, at most.
// workers is Config.Workers.
func Connections(workers, routes int) int {
	return workers + routes*QuarantineWorkers + lateConnections
}
