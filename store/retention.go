package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// RetentionConfig says how long finished alarms are kept, and how they are deleted.
type RetentionConfig struct {
	Keep        time.Duration // time after an alarm's end; default 24h, 0 keeps none
	KeepInDoubt time.Duration // shortest time for at-most-once alarms in doubt, whose claims may still be settled; default 1m
	Interval    time.Duration // time between two purges; default 1s. After a purge that found nothing, or failed, it is five times as long.
	BatchSize   int           // most alarms of one statement; default 500
	KeepActs    time.Duration // time for which the audit keeps acts; default 90 days
}

// DefaultRetentionConfig returns the defaults named at each field.
func DefaultRetentionConfig() RetentionConfig {
	return RetentionConfig{Keep: 24 * time.Hour, KeepInDoubt: time.Minute, Interval: time.Second, BatchSize: 500,
		KeepActs: 90 * 24 * time.Hour}
}

// minKeepInDoubt is longer than a claim lasts, because clocks differ.
const minKeepInDoubt = 2 * clock.ClaimTimeout

// Validate returns every fault of the configuration, joined, or nil.
func (c RetentionConfig) Validate() error {
	var errs []error
	if c.Keep < 0 {
		errs = append(errs, errors.New("retention must not be negative: 0 keeps no finished alarm"))
	}
	if c.KeepInDoubt < minKeepInDoubt {
		errs = append(errs,
			fmt.Errorf("alarms in doubt must be kept for at least %s: a claim may be settled until it ends",
				minKeepInDoubt))
	}
	if c.KeepActs < 0 {
		errs = append(errs, errors.New("the retention of the audit must not be negative"))
	}
	if c.Interval < 10*time.Millisecond {
		errs = append(errs, errors.New("the retention interval must be at least 10ms"))
	}
	if c.BatchSize < 1 || c.BatchSize > 10_000 {
		errs = append(errs,
			errors.New("the retention batch must be from 1 to 10000: a large delete holds its locks long"))
	}
	return errors.Join(errs...)
}

// Time is a lower bound of the database's clock.
type Time interface {
	AtLeast() (clock.Instant, error)
}

// Retention deletes finished alarms and acts of the audit in small batches after their retention.
type Retention struct {
	cfg     RetentionConfig
	purger  Purger
	time    Time
	log     *slog.Logger
	deleted prometheus.Counter
	errors  prometheus.Counter

	acts       ActPurger
	actsPurged time.Time // begin of the last purge of acts that left none
}

// ActPurger deletes acts of the audit. A Store implements it.
type ActPurger interface {
	PurgeActs(ctx context.Context, before clock.Instant, limit int) (int, error)
}

// RetentionDeps are the dependencies of a Retention.
type RetentionDeps struct {
	Purger     Purger
	Acts       ActPurger
	Time       Time
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// NewRetention returns a Retention that deletes nothing before Run.
func NewRetention(cfg RetentionConfig, deps RetentionDeps) (*Retention, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Retention{
		cfg: cfg, purger: deps.Purger, acts: deps.Acts, time: deps.Time, log: deps.Log,
		deleted: prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_store_purged_alarms_total",
			Help: "Alarms deleted after their retention."}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_store_purge_errors_total",
			Help: "Purges that failed."}),
	}
	deps.Registerer.MustRegister(r.deleted, r.errors)
	return r, nil
}

// quietFactor is how many times longer the interval is after a purge that found nothing or failed.
const quietFactor = 5

// Run deletes until ctx ends. After a full batch it pauses as long as the batch took, at most cfg.Interval. As long as
// batches are faster than that, purging uses at most half of one connection's time.
func (r *Retention) Run(ctx context.Context) error {
	for {
		begun := time.Now()
		n, err := r.purge(ctx)
		wait := r.cfg.Interval
		switch {
		case err != nil && ctx.Err() == nil:
			r.errors.Inc()
			r.log.Warn("could not purge", "err", err)
			wait *= quietFactor
		case n == 0:
			wait *= quietFactor
		case n == r.cfg.BatchSize:
			wait = min(wait, time.Since(begun))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

func (r *Retention) purge(ctx context.Context) (int, error) {
	now, err := r.time.AtLeast()
	if err != nil {
		return 0, nil //nolint:nilerr // the database is away; callers that need it report it
	}
	n, err := r.purger.Purge(ctx, instantBefore(now, r.cfg.Keep), instantBefore(now, r.cfg.KeepInDoubt),
		r.cfg.BatchSize)
	r.deleted.Add(float64(n))
	return n, errors.Join(err, r.purgeActs(ctx, now))
}

// actsInterval is the time between two purges of acts, unless a purge was full.
const actsInterval = time.Minute

// purgeActs deletes acts after their retention.
func (r *Retention) purgeActs(ctx context.Context, now clock.Instant) error {
	if time.Since(r.actsPurged) < actsInterval {
		return nil
	}
	begun := time.Now()
	n, err := r.acts.PurgeActs(ctx, instantBefore(now, r.cfg.KeepActs), r.cfg.BatchSize)
	if err == nil && n < r.cfg.BatchSize {
		r.actsPurged = begun
	}
	return err
}

// instantBefore returns the instant d before now, at least 0.
func instantBefore(now clock.Instant, d time.Duration) clock.Instant {
	return max(0, now-clock.Instant(d.Milliseconds()))
}
