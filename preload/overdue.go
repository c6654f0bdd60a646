package preload

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

const (
	overdueInterval = 10 * time.Second // between two counts
	overdueLimit    = 100_000          // alarms at which counting stops
	overdueGrace    = time.Second      // an alarm counts when it has been due for longer
)

// OverdueDeps are the dependencies of an Overdue.
type OverdueDeps struct {
	Counter    store.OverdueCounter
	Owner      Owner
	Time       Time
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Overdue counts the overdue alarms in the database. The count does not depend on loaders, heap or wake-ups, so it
// shows whether they do their work.
type Overdue struct {
	counter store.OverdueCounter
	owner   Owner
	time    Time
	log     *slog.Logger
	alarms  prometheus.Gauge
	oldest  prometheus.Gauge
}

// NewOverdue returns an Overdue. It reads nothing before Run.
func NewOverdue(deps OverdueDeps) *Overdue {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "clockd_preload_" + name, Help: help})
	}
	w := &Overdue{
		counter: deps.Counter, owner: deps.Owner, time: deps.Time, log: deps.Log,
		alarms: gauge("overdue_alarms",
			"Alarms in this node's shards that have been due for more than a second and have not rung. Counted every 10 s, up to 100000."),
		oldest: gauge("overdue_oldest_seconds",
			"How long the oldest overdue alarm in this node's shards has been due; 0 without one."),
	}
	deps.Registerer.MustRegister(w.alarms, w.oldest)
	return w
}

// Run counts every 10 s until ctx ends.
func (w *Overdue) Run(ctx context.Context) error {
	ticker := time.NewTicker(overdueInterval)
	defer ticker.Stop()
	for {
		if err := w.count(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug("could not count overdue alarms", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (w *Overdue) count(ctx context.Context) error {
	now, err := w.time.AtLeast()
	if err != nil {
		return err
	}
	dueUntil := max(0, now-clock.Instant(overdueGrace.Milliseconds()))
	var o store.Overdue
	if owned := w.owner.Owned(); len(owned) > 0 {
		if o, err = w.counter.Overdue(ctx, dueUntil, owned, overdueLimit); err != nil {
			return err
		}
	}
	w.alarms.Set(float64(o.Count))
	age := 0.0
	if o.Oldest != clock.NoInstant {
		age = now.Sub(o.Oldest).Seconds()
	}
	w.oldest.Set(age)
	return nil
}
