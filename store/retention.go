package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// RetentionConfig says how long alarms that are over are kept.
type RetentionConfig struct {
	Keep     time.Duration // after their end; default 24h, 0: not at all
	Interval time.Duration // between two looks; default 1s
	Batch    int           // alarms a statement, at most; default 500
}

// DefaultRetentionConfig returns the defaults that each field names.
func DefaultRetentionConfig() RetentionConfig {
	return RetentionConfig{Keep: 24 * time.Hour, Interval: time.Second, Batch: 500}
}

// Validate returns all reasons against the configuration, joined, or nil.
func (c RetentionConfig) Validate() error {
	var errs []error
	if c.Keep < 0 {
		errs = append(errs, errors.New("retention must not be negative: 0 keeps nothing that is over"))
	}
	if c.Interval < 10*time.Millisecond {
		errs = append(errs, errors.New("the retention interval must be at least 10ms"))
	}
	if c.Batch < 1 || c.Batch > 10_000 {
		errs = append(errs, errors.New("the retention batch must be from 1 to 10000: a large delete holds its locks long"))
	}
	return errors.Join(errs...)
}

// Now tells a lower bound of the database's clock.
type Now interface {
	Now() (clock.Instant, error)
}

// Retention deletes alarms that have been over for long enough, in small batches.
type Retention struct {
	cfg     RetentionConfig
	purger  Purger
	now     Now
	log     *slog.Logger
	deleted prometheus.Counter
	errors  prometheus.Counter
}

// NewRetention returns a Retention; nothing is deleted before Run.
func NewRetention(cfg RetentionConfig, p Purger, now Now, log *slog.Logger, reg prometheus.Registerer) (*Retention, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Retention{
		cfg: cfg, purger: p, now: now, log: log,
		deleted: prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_store_purged_alarms_total", Help: "Alarms deleted after their retention."}),
		errors:  prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_store_purge_errors_total", Help: "Purges that failed."}),
	}
	reg.MustRegister(r.deleted, r.errors)
	return r, nil
}

// Run deletes until ctx ends. Full batches follow each other after a pause as long as the batch took, so that purging takes
// at most half of one connection's time.
func (r *Retention) Run(ctx context.Context) error {
	for {
		begun := time.Now()
		n, err := r.purge(ctx)
		wait := r.cfg.Interval
		switch {
		case err != nil && ctx.Err() == nil:
			r.errors.Inc()
			r.log.Warn("could not purge", "err", err)
			wait *= 5
		case n == r.cfg.Batch:
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
	now, err := r.now.Now()
	if err != nil {
		return 0, nil //nolint:nilerr // the database is away; those who need it say so
	}
	n, err := r.purger.Purge(ctx, max(0, now-clock.Instant(r.cfg.Keep.Milliseconds())), r.cfg.Batch)
	r.deleted.Add(float64(n))
	return n, err
}
