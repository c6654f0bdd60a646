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
	overdueInterval = 10 * time.Second
	overdueLimit    = 100_000 // counted no further
	overdueGrace    = time.Second
)

// Overdue watches what is due in the database and not rung: the one figure that tells, from outside of all of the machinery,
// whether it does its work.
type Overdue struct {
	gauge     store.Gauge
	ownership Ownership
	time      Time
	log       *slog.Logger
	alarms    prometheus.Gauge
	oldest    prometheus.Gauge
}

// NewOverdue returns an Overdue; nothing is read before Run.
func NewOverdue(g store.Gauge, o Ownership, tm Time, log *slog.Logger, reg prometheus.Registerer) *Overdue {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "clockd_preload_" + name, Help: help})
	}
	w := &Overdue{
		gauge: g, ownership: o, time: tm, log: log,
		alarms: gauge("overdue_alarms", "Alarms due for more than a second and not rung, in this node's shards, counted up to 100000, every 10 s."),
		oldest: gauge("overdue_oldest_seconds", "How long the oldest of them has been due."),
	}
	reg.MustRegister(w.alarms, w.oldest)
	return w
}

// Run looks every 10 s until ctx ends.
func (w *Overdue) Run(ctx context.Context) error {
	ticker := time.NewTicker(overdueInterval)
	defer ticker.Stop()
	for {
		if err := w.look(ctx); err != nil && ctx.Err() == nil {
			w.log.Debug("could not count what is overdue", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (w *Overdue) look(ctx context.Context) error {
	now, err := w.time.Now()
	if err != nil {
		return err
	}
	late := max(0, now-clock.Instant(overdueGrace.Milliseconds()))
	var o store.Overdue
	if owned := w.ownership.Owned(); len(owned) > 0 {
		if o, err = w.gauge.Overdue(ctx, late, owned, overdueLimit); err != nil {
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
