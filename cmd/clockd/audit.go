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
	"github.com/clockd/clockd/store"
)

// auditInterval is the time between two audits. It repeats because settings change, and because another server may take over.
const auditInterval = time.Minute

// audit asks the database and the targets whether they keep confirmed changes and messages. It reports each new finding in the log, and all
// findings in readiness and as a metric.
type audit struct {
	database store.Auditor
	targets  *targets
	log      *slog.Logger
	safe     *prometheus.GaugeVec

	mu       sync.Mutex
	settings []store.Finding // findings of the last successful audit of the database
	queues   []store.Finding // findings of the last successful audit of the targets
}

func newAudit(st store.Store, targets *targets, log *slog.Logger, reg prometheus.Registerer) *audit {
	a := &audit{
		database: st, targets: targets, log: log,
		safe: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_durability_safe",
			Help: "1 if the database's setting (or the setting queues: all queues) keeps confirmed data, 0 if confirmed data may be lost. Checked every minute.",
		}, []string{"setting"}),
	}
	reg.MustRegister(a.safe)
	return a
}

// Run audits every auditInterval until ctx ends.
func (a *audit) Run(ctx context.Context) error {
	ticker := time.NewTicker(auditInterval)
	defer ticker.Stop()
	for {
		if err := a.refresh(ctx); err != nil && ctx.Err() == nil {
			a.log.Debug("could not ask how durable commits are", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// refresh asks the database and the targets once. A failure of one does not stop the audit of the other.
func (a *audit) refresh(ctx context.Context) error {
	settings, err := a.database.Durability(ctx)
	if err == nil {
		for _, f := range settings {
			a.safe.WithLabelValues(f.Name).Set(oneIf(f.Safe))
		}
		a.report(&a.settings, settings)
	}
	queues, targetErr := a.targets.findings(ctx)
	if targetErr == nil && queues != nil {
		a.safe.WithLabelValues("queues").Set(oneIf(unsafeSettings(queues) == ""))
		a.report(&a.queues, queues)
	}
	return errors.Join(err, targetErr)
}

// report replaces the findings before with those found now. It logs each unsafe finding that is new.
func (a *audit) report(before *[]store.Finding, found []store.Finding) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, f := range found {
		if !f.Safe && !slices.Contains(*before, f) {
			a.log.Warn("confirmed data may be lost", "setting", f.Name, "value", f.Value, "reason", f.Detail)
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

// readinessCheck returns the audit's check for readiness.
func (a *audit) readinessCheck() clockhttp.Check {
	a.mu.Lock()
	defer a.mu.Unlock()
	if detail := unsafeSettings(slices.Concat(a.settings, a.queues)); detail != "" {
		return clockhttp.Check{Name: "durability", Status: statusWarning, Detail: detail}
	}
	return clockhttp.Check{Name: "durability", Status: statusOK}
}

// unsafeSettings returns one sentence for each unsafe finding, "" if all are safe.
func unsafeSettings(found []store.Finding) string {
	var reasons []string
	for _, f := range found {
		if !f.Safe {
			reasons = append(reasons, fmt.Sprintf("%s is %s: %s", f.Name, f.Value, f.Detail))
		}
	}
	return strings.Join(reasons, "; ")
}

// requireDurable returns an error if the database may lose committed data.
func requireDurable(ctx context.Context, a store.Auditor) error {
	found, err := a.Durability(ctx)
	if err != nil {
		return err
	}
	if detail := unsafeSettings(found); detail != "" {
		return fmt.Errorf("the database may lose commits, and durability is required (CLOCKD_REQUIRE_DURABLE): %s", detail)
	}
	return nil
}
