package main

import (
	"fmt"
	"sync/atomic"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit"
)

// What a check says.
const (
	statusOK      = "ok"
	statusWarning = "warning" // something is not as it should be; sets are answered
	statusFailing = "failing"
)

// readiness tells whether sets can be answered, and what else is not as it should be.
type readiness struct {
	draining *atomic.Bool
	timebase *clock.Timebase
	target   ring.Target
	broker   *rabbit.Session // nil where rings go to the stream
	loop     *ring.Loop
	keeper   *preload.Keeper
	audit    *audit
	node     string // this node's name
}

func newReadiness(cfg *config, draining *atomic.Bool, tb *clock.Timebase, target ring.Target, broker *rabbit.Session, loop *ring.Loop, k *preload.Keeper, a *audit) *readiness {
	return &readiness{draining: draining, timebase: tb, target: target, broker: broker, loop: loop, keeper: k, audit: a, node: cfg.Node}
}

// look answers /readyz. Only the database and a stop make the service unready: sets must go on while the broker is away.
func (r *readiness) look() clockhttp.Readiness {
	_, err := r.timebase.Now()
	checks := []clockhttp.Check{check("database", err), check("target", r.target.Usable()), r.applications(), r.name(), r.audit.check()}
	if r.broker != nil {
		for _, w := range r.broker.Warnings() {
			checks = append(checks, clockhttp.Check{Name: "topology", Status: statusWarning, Detail: w})
		}
	}
	draining := r.draining.Load()
	if draining {
		checks = append(checks, clockhttp.Check{Name: "process", Status: statusFailing, Detail: "stopping"})
	}
	return clockhttp.Readiness{Ready: err == nil && !draining, Checks: checks}
}

// name says whether this node's name is its own.
func (r *readiness) name() clockhttp.Check {
	if r.keeper.NameShared() {
		return clockhttp.Check{
			Name: "node", Status: statusWarning, Detail: fmt.Sprintf("another node is called %q, too: give each its own name (CLOCKD_NODE)", r.node),
		}
	}
	return clockhttp.Check{Name: "node", Status: statusOK}
}

func check(name string, err error) clockhttp.Check {
	if err != nil {
		return clockhttp.Check{Name: name, Status: statusFailing, Detail: err.Error()}
	}
	return clockhttp.Check{Name: name, Status: statusOK}
}

// applications names some of those whose rings are held or go apart from the others.
func (r *readiness) applications() clockhttp.Check {
	unwell := r.loop.Unwell()
	if len(unwell) == 0 {
		return clockhttp.Check{Name: "applications", Status: statusOK}
	}
	const shown = 10
	detail := ""
	for _, u := range unwell[:min(shown, len(unwell))] {
		detail += fmt.Sprintf("%s is %s: %s; ", u.Application, u.Health, u.Reason)
	}
	if more := len(unwell) - shown; more > 0 {
		detail += fmt.Sprintf("and %d more; ", more)
	}
	return clockhttp.Check{Name: "applications", Status: statusWarning, Detail: detail[:len(detail)-2]}
}
