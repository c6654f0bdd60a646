package main

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/recompute"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
)

// The statuses of a check.
const (
	statusOK      = "ok"
	statusWarning = "warning" // this part has a fault, but it works
	statusFailing = "failing" // this part does not work
)

// readiness reports whether sets can be served, and all other known faults.
type readiness struct {
	draining *atomic.Bool
	timebase *clock.Timebase
	service  *clock.Service
	targets  *targets
	loop     *ring.Loop
	keeper   *lease.Keeper
	durable  *durability
	settings *settings.Watch
	access   *access.Watch
	zones    *recompute.Recomputer
	self     *identity
	node     string // this node's name
}

func newReadiness(
	cfg *config, draining *atomic.Bool, timebase *clock.Timebase, service *clock.Service, targets *targets,
	loop *ring.Loop, keeper *lease.Keeper, durable *durability, watch *settings.Watch, tokens *access.Watch,
	zones *recompute.Recomputer, self *identity,
) *readiness {
	return &readiness{draining: draining, timebase: timebase, service: service, targets: targets, loop: loop,
		keeper: keeper, durable: durable, settings: watch, access: tokens, zones: zones, self: self, node: cfg.Node}
}

// view returns the content of /readyz. The service is not ready while the database is away, refuses this build or fails
// all writes, and while the process stops. With any other fault it is ready, because sets must go on while the broker
// is away.
func (r *readiness) view() clockhttp.Readiness {
	_, err := r.timebase.AtLeast()
	writing, refused := r.service.Writable(), r.keeper.Refused()
	checks := []clockhttp.Check{check("database", err), check("build", refused), check("writes", writing)}
	routes := r.loop.Routes()
	checks = append(checks,
		checkRoutes(routes, func(s *ring.RouteState) clockhttp.Check { return check("target", s.Unusable) })...)
	checks = append(checks, check("leases", r.keeper.Failing()), check("claims", r.loop.CheckClaims()))
	checks = append(checks, checkRoutes(routes, lanes)...)
	checks = append(checks, r.applications(), pausedCheck(r.settings), settingsCheck(r.settings, r.targets),
		zoneCheck(r.zones.View()), r.name(), r.abilities(), r.keys(), r.durable.readinessCheck(),
		warned("authentication", authenticationWarning(r.access, r.self.httpAddress())))
	if r.self.certificates != nil {
		checks = append(checks, warned("certificate", certificateWarning(r.self.certificates, time.Now())))
	}
	for _, w := range r.targets.warnings() {
		checks = append(checks, clockhttp.Check{Name: "topology", Status: statusWarning, Detail: w})
	}
	draining := r.draining.Load()
	if draining {
		checks = append(checks, clockhttp.Check{Name: "process", Status: statusFailing, Detail: "stopping"})
	}
	return clockhttp.Readiness{Ready: err == nil && refused == nil && writing == nil && !draining, Checks: checks}
}

// checkRoutes returns a check of each route. With several routes its detail begins with the route's name.
func checkRoutes(
	routes []ring.RouteState, checkRoute func(s *ring.RouteState) clockhttp.Check,
) (checks []clockhttp.Check) {
	for i := range routes {
		c := checkRoute(&routes[i])
		if len(routes) > 1 {
			c.Detail = strings.TrimSuffix(routes[i].Name+": "+c.Detail, ": ")
		}
		checks = append(checks, c)
	}
	return checks
}

// lanes reports whether lanes to a route's target are open.
func lanes(s *ring.RouteState) clockhttp.Check {
	switch {
	case s.CannotRing != nil:
		return check("lanes", s.CannotRing)
	case s.LaneFailure != nil:
		return clockhttp.Check{Name: "lanes", Status: statusWarning,
			Detail: fmt.Sprintf("%d of %d lanes to the target are open: %s", s.OpenLanes, s.Lanes, s.LaneFailure)}
	default:
		return clockhttp.Check{Name: "lanes", Status: statusOK}
	}
}

// abilities names the living nodes that lack an ability. Their shards move to nodes that have the ability, if there are
// any.
func (r *readiness) abilities() clockhttp.Check {
	var details []string
	for _, n := range r.keeper.Limited() {
		if len(n.Lacks) > 0 {
			details = append(details,
				fmt.Sprintf("node %q (%s) lacks: %s", n.Name, n.Incarnation, strings.Join(n.Lacks, ", ")))
		}
	}
	return warned("abilities", strings.Join(details, "; "))
}

// keys names the living nodes that lack the key with which this node encrypts secrets. They hold the alarms of
// applications whose settings it encrypts.
func (r *readiness) keys() clockhttp.Check {
	var details []string
	for _, n := range r.keeper.Limited() {
		if n.LacksKey != "" {
			details = append(details,
				fmt.Sprintf("node %q (%s) reports no key %s, with which this node encrypts secrets: give it the key "+
					"(CLOCKD_SECRET_KEY_FILE) and restart it", n.Name, n.Incarnation, n.LacksKey))
		}
	}
	return warned("keys", strings.Join(details, "; "))
}

// name reports whether another node has the same name.
func (r *readiness) name() clockhttp.Check {
	fault := ""
	if r.keeper.NameShared() {
		fault = fmt.Sprintf("another node is also named %q: give each node its own name (CLOCKD_NODE)", r.node)
	}
	return warned("node", fault)
}

// warned returns the check of a part that works: a warning if the fault is not empty.
func warned(name, fault string) clockhttp.Check {
	if fault != "" {
		return clockhttp.Check{Name: name, Status: statusWarning, Detail: fault}
	}
	return clockhttp.Check{Name: name, Status: statusOK}
}

func check(name string, err error) clockhttp.Check {
	if err != nil {
		return clockhttp.Check{Name: name, Status: statusFailing, Detail: err.Error()}
	}
	return clockhttp.Check{Name: name, Status: statusOK}
}

// pausedCheck names some of the paused applications. It is a warning, because a person may have forgotten them.
func pausedCheck(watch *settings.Watch) clockhttp.Check {
	names := watch.Paused()
	if len(names) == 0 {
		return clockhttp.Check{Name: "paused", Status: statusOK}
	}
	const shown = 10
	detail := "paused by a person: " + strings.Join(names[:min(shown, len(names))], ", ")
	if len(names) > shown {
		detail += fmt.Sprintf(" and %d more", len(names)-shown)
	}
	return clockhttp.Check{Name: "paused", Status: statusWarning, Detail: detail}
}

// zoneCheck shows the version of the time-zone data. It warns if another node has had newer data.
func zoneCheck(v recompute.View) clockhttp.Check {
	c := clockhttp.Check{Name: "time_zone_data", Status: statusOK, Detail: v.Version}
	if v.Older() {
		c.Status = statusWarning
		c.Detail += fmt.Sprintf(": another node has had %s, so some local times of this node may be wrong: replace this node by the newer build", v.Newest)
	}
	if v.Pending > 0 {
		c.Detail += fmt.Sprintf("; the alarms of %d time zones are being recomputed by %s", v.Pending, v.Newest)
	}
	return c
}

// applications names some of the applications in quarantine.
func (r *readiness) applications() clockhttp.Check {
	sample, all := r.loop.Quarantined()
	if all == 0 {
		return clockhttp.Check{Name: "applications", Status: statusOK}
	}
	const shown = 10
	detail := ""
	for _, application := range sample[:min(shown, len(sample))] {
		alarms := application.Application
		if application.Target != "" {
			alarms += " at its target " + application.Target
		}
		detail += alarms + " is " + application.Health
		if application.Reason != "" {
			detail += ": " + application.Reason
		}
		detail += "; "
	}
	if more := all - min(shown, len(sample)); more > 0 {
		detail += fmt.Sprintf("and %d more; ", more)
	}
	return clockhttp.Check{Name: "applications", Status: statusWarning, Detail: detail[:len(detail)-2]}
}
