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

// durabilityInterval is the time between two checks. It repeats because settings change, and because another server may
// take over.
const durabilityInterval = time.Minute

// durability asks the database and the targets whether they keep confirmed changes and messages. It reports each new
// finding in the log, and all findings in readiness and as a metric.
type durability struct {
	database store.DurabilityChecker
	targets  *targets
	log      *slog.Logger
	safe     *prometheus.GaugeVec

	mu       sync.Mutex
	settings []store.Finding // findings of the last successful check of the database
	queues   []store.Finding // findings of the last successful check of the targets
}

func newDurability(st store.Store, targets *targets, log *slog.Logger, reg prometheus.Registerer) *durability {
	d := &durability{
		database: st, targets: targets, log: log,
		safe: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_durability_safe",
			Help: "1 if the database's setting (or the setting queues: all queues) keeps confirmed data, 0 if confirmed data may be lost. Checked every minute.",
		}, []string{"setting"}),
	}
	reg.MustRegister(d.safe)
	return d
}

// Run checks every durabilityInterval until ctx ends.
func (d *durability) Run(ctx context.Context) error {
	ticker := time.NewTicker(durabilityInterval)
	defer ticker.Stop()
	for {
		if err := d.refresh(ctx); err != nil && ctx.Err() == nil {
			d.log.Debug("could not ask how durable commits are", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// refresh asks the database and the targets once. A failure of one does not stop the check of the other.
func (d *durability) refresh(ctx context.Context) error {
	settings, err := d.database.Durability(ctx)
	if err == nil {
		for _, f := range settings {
			d.safe.WithLabelValues(f.Name).Set(oneIf(f.Safe))
		}
		d.report(&d.settings, settings)
	}
	queues, targetErr := d.targets.findings(ctx)
	if targetErr == nil && queues != nil {
		d.safe.WithLabelValues("queues").Set(oneIf(unsafeSettings(queues) == ""))
		d.report(&d.queues, queues)
	}
	return errors.Join(err, targetErr)
}

// report replaces the findings before with those found now. It logs each unsafe finding that is new.
func (d *durability) report(before *[]store.Finding, found []store.Finding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range found {
		if !f.Safe && !slices.Contains(*before, f) {
			d.log.Warn("confirmed data may be lost", "setting", f.Name, "value", f.Value, "reason", f.Detail)
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

// readinessCheck returns the check for readiness.
func (d *durability) readinessCheck() clockhttp.Check {
	d.mu.Lock()
	defer d.mu.Unlock()
	return warned("durability", unsafeSettings(slices.Concat(d.settings, d.queues)))
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
func requireDurable(ctx context.Context, checker store.DurabilityChecker) error {
	found, err := checker.Durability(ctx)
	if err != nil {
		return err
	}
	if detail := unsafeSettings(found); detail != "" {
		return fmt.Errorf("the database may lose commits, and durability is required (CLOCKD_REQUIRE_DURABLE): %s",
			detail)
	}
	return nil
}
