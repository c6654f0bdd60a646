package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/store"
)

// auditInterval is how often database and broker are asked how safe what they confirm is: settings change, and so do servers.
const auditInterval = time.Minute

// audit asks how safe what was confirmed is, and tells: in the log when an answer is new, in readiness, and as a metric.
type audit struct {
	database store.Auditor
	broker   *rabbit.Session // nil where rings go to the stream
	log      *slog.Logger
	safe     *prometheus.GaugeVec

	mu       sync.Mutex
	settings []store.Finding // of the database, when it was last asked with success
	queues   []store.Finding // of the broker
}

func newAudit(st store.Store, broker *rabbit.Session, log *slog.Logger, reg prometheus.Registerer) *audit {
	a := &audit{
		database: st, broker: broker, log: log,
		safe: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_durability_safe",
			Help: "1 where a setting of the database, or all queues, keep what was confirmed; 0 where it may be lost. Asked every minute.",
		}, []string{"setting"}),
	}
	reg.MustRegister(a.safe)
	return a
}

// Run looks every minute until ctx ends.
func (a *audit) Run(ctx context.Context) error {
	ticker := time.NewTicker(auditInterval)
	defer ticker.Stop()
	for {
		if err := a.look(ctx); err != nil && ctx.Err() == nil {
			a.log.Debug("could not ask how durable commits are", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look asks once. Database and broker are asked independently of each other.
func (a *audit) look(ctx context.Context) error {
	settings, err := a.database.Durability(ctx)
	if err == nil {
		for _, f := range settings {
			a.safe.WithLabelValues(f.Name).Set(oneIf(f.Safe))
		}
		a.tell(&a.settings, settings)
	}
	if a.broker == nil {
		return err
	}
	found, unasked := a.broker.Findings(ctx)
	if unasked == nil && found != nil {
		queues := make([]store.Finding, len(found))
		for i, f := range found {
			queues[i] = store.Finding(f)
		}
		a.safe.WithLabelValues("queues").Set(oneIf(unsafe(queues) == ""))
		a.tell(&a.queues, queues)
	}
	return errors.Join(err, unasked)
}

// tell makes what was found known in place of what was before; what is unsafe is logged when it is new.
func (a *audit) tell(before *[]store.Finding, found []store.Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range found {
		if !f.Safe && !slices.Contains(*before, f) {
			a.log.Warn("what was confirmed may be lost", "setting", f.Name, "value", f.Value, "reason", f.Detail)
		}
	}
	*before = found
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// check is what readiness says of it.
func (a *audit) check() clockhttp.Check {
	a.mu.Lock()
	defer a.mu.Unlock()
	if detail := unsafe(slices.Concat(a.settings, a.queues)); detail != "" {
		return clockhttp.Check{Name: "durability", Status: statusWarning, Detail: detail}
	}
	return clockhttp.Check{Name: "durability", Status: statusOK}
}

// unsafe returns what is unsafe in a sentence each, "" when nothing is.
func unsafe(found []store.Finding) string {
	var reasons []string
	for _, f := range found {
		if !f.Safe {
			reasons = append(reasons, fmt.Sprintf("%s is %s: %s", f.Name, f.Value, f.Detail))
		}
	}
	return strings.Join(reasons, "; ")
}

// requireDurable refuses a database that may lose what it has committed.
func requireDurable(ctx context.Context, a store.Auditor) error {
	found, err := a.Durability(ctx)
	if err != nil {
		return err
	}
	if detail := unsafe(found); detail != "" {
		return fmt.Errorf("the database may lose commits, and durability is required (CLOCKD_REQUIRE_DURABLE): %s", detail)
	}
	return nil
}
