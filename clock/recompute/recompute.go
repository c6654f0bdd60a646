package recompute

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

// Store finds alarms by their time zone, and keeps the state of recomputations. store.Store implements it.
type Store interface {
	// ZonedAlarms returns at most limit ids of alarms of the time zone, above after, in order.
	ZonedAlarms(ctx context.Context, timeZone string, after int64, limit int) ([]int64, error)
	// Keys returns the keys of the alarms with these ids. Deleted alarms are missing.
	Keys(ctx context.Context, ids []int64) (map[int64]clock.Key, error)
	// ZoneState returns the state, empty at first, and its revision.
	ZoneState(ctx context.Context) (revision int64, document string, err error)
	// ChangeZoneState writes the state, unless it was written since the revision.
	ChangeZoneState(ctx context.Context, revision int64, document string) (written bool, err error)
}

// Alarms changes alarms. clock.Service implements it.
type Alarms interface {
	Submit(ctx context.Context, op clock.Op) *clock.Pending
}

// Time is the database's clock. clock.Timebase implements it.
type Time interface {
	AtLeast() (clock.Instant, error)
}

// Config sets the pace of recomputations.
type Config struct {
	Poll     time.Duration // time between two looks at the state; default 5 s
	Refresh  time.Duration // time after which an older node repeats its requests; default 10 s
	Settle   time.Duration // time without a request before a scan that ends the recomputation; default 30 s
	Pause    time.Duration // shortest time between two scans of a zone; default 15 s
	Lease    time.Duration // time after which another node scans, if the owner writes nothing; default 1 min
	PageSize int           // alarms that are recomputed together; default 500
}

// DefaultConfig returns the default configuration.
func DefaultConfig() Config {
	return Config{
		Poll: 5 * time.Second, Refresh: 10 * time.Second, Settle: 30 * time.Second, Pause: 15 * time.Second,
		Lease: time.Minute, PageSize: 500,
	}
}

// Validate returns the reasons why the configuration is invalid, joined; nil if it is valid.
func (c Config) Validate() error {
	var errs []error
	if c.Poll <= 0 || c.Pause <= 0 || c.PageSize < 1 {
		errs = append(errs, errors.New("poll, pause and page size of recomputations must be positive"))
	}
	if c.Refresh < c.Poll || c.Settle < 2*(c.Refresh+c.Poll) {
		errs = append(errs,
			errors.New("settle must be at least twice refresh and poll together: an older node asks twice before a scan counts"))
	}
	if c.Lease < clock.RequestTimeout {
		errs = append(errs, errors.New("the lease must be at least the time of a request: a page takes that long"))
	}
	return errors.Join(errs...)
}

// Deps are the dependencies of a Recomputer.
type Deps struct {
	Store       Store
	Alarms      Alarms
	Time        Time
	Data        *repeat.ZoneData // data of this node
	Incarnation string           // of this process alone
	Log         *slog.Logger
	Registerer  prometheus.Registerer
}

// Recomputer takes part in the recomputations of a database: see the package comment.
type Recomputer struct {
	cfg   Config
	deps  Deps
	moved prometheus.Counter

	mu     sync.Mutex
	view   View
	warned bool // it was logged that the data of this node is older
}

// View is a summary of the time-zone data, for people. It is at most Config.Poll old while the database answers.
type View struct {
	Version string // data of this node
	Newest  string // newest data that a node of the database has had; empty: not known yet
	Pending int    // zones whose alarms are being recomputed
}

// Older reports whether another node has had newer data.
func (v View) Older() bool { return v.Version < v.Newest }

// New returns a Recomputer. It reads nothing before Join.
func New(cfg Config, deps Deps) (*Recomputer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	r := &Recomputer{cfg: cfg, deps: deps, view: View{Version: deps.Data.Version()}}
	r.moved = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clockd_recompute_moved_alarms_total",
		Help: "Alarms that this node has moved because the rules of their time zone changed.",
	})
	info := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "clockd_recompute_time_zone_data_info", Help: "Version of this node's time-zone data. Always 1.",
		ConstLabels: prometheus.Labels{"version": r.view.Version},
	}, func() float64 { return 1 })
	pending := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "clockd_recompute_pending_zones",
		Help: "Time zones whose alarms are being recomputed by newer time-zone data, on whatever node.",
	}, func() float64 { return float64(r.View().Pending) })
	deps.Registerer.MustRegister(r.moved, info, pending)
	return r, nil
}

// View returns the summary. Safe for concurrent use.
func (r *Recomputer) View() View {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view
}

// Join tells the database which data this node has. Call it before this node sets or rings alarms.
func (r *Recomputer) Join(ctx context.Context) error {
	return r.change(ctx, r.join)
}

func (r *Recomputer) join(s *state, now int64) (changed bool) {
	return s.join(r.deps.Data.Version(), r.deps.Data.Digests(), now, r.cfg.Refresh.Milliseconds())
}

// Run polls the state, and recomputes alarms, until ctx ends.
func (r *Recomputer) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		wait, err := r.step(ctx)
		if err != nil && ctx.Err() == nil {
			r.deps.Log.Warn("could not recompute alarms of changed time zones", "err", err)
			wait = r.cfg.Poll
		}
		timer.Reset(wait)
	}
}

// step recomputes one page of alarms, if there is one to recompute. It returns the time until the next step.
func (r *Recomputer) step(ctx context.Context) (wait time.Duration, err error) {
	if err := r.Join(ctx); err != nil {
		return 0, err
	}
	p, found, err := r.begin(ctx)
	if err != nil || !found {
		return r.cfg.Poll, err
	}
	if err := r.scan(ctx, &p); err != nil {
		return 0, err
	}
	err = r.change(ctx, func(s *state, now int64) bool {
		return s.Owner == r.deps.Incarnation &&
			s.finish(p, now, r.cfg.Settle.Milliseconds(), r.cfg.Pause.Milliseconds())
	})
	return 0, err
}

// begin takes the lease, or keeps it, and returns the next page. found is false if this node has nothing to scan.
func (r *Recomputer) begin(ctx context.Context) (p page, found bool, err error) {
	err = r.change(ctx, func(s *state, now int64) bool {
		p, found = s.next(now)
		found = found && s.Version == r.deps.Data.Version() && s.mayOwn(r.deps.Incarnation, now)
		if !found {
			return false
		}
		s.Owner, s.Until = r.deps.Incarnation, now+r.cfg.Lease.Milliseconds()
		s.begin(p)
		return true
	})
	return p, found, err
}

// maxChanges is how often a change is tried while other nodes write the state.
const maxChanges = 20

// change writes the state that apply makes of the stored one, unless apply returns false. It calls apply again if
// another node has written.
func (r *Recomputer) change(ctx context.Context, apply func(s *state, now int64) bool) error {
	for range maxChanges {
		now, err := r.deps.Time.AtLeast()
		if err != nil {
			return err
		}
		revision, document, err := r.deps.Store.ZoneState(ctx)
		if err != nil {
			return err
		}
		s, err := decode(document)
		if err != nil {
			return err
		}
		if !apply(&s, int64(now)) {
			r.note(&s)
			return nil
		}
		next, err := s.encode()
		if err != nil {
			return err
		}
		written, err := r.deps.Store.ChangeZoneState(ctx, revision, next)
		if err != nil {
			return err
		}
		if written {
			r.note(&s)
			return nil
		}
	}
	return errors.New("other nodes write the state of time-zone data all the time")
}

// note updates the summary, and logs once that this node has older data.
func (r *Recomputer) note(s *state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.view.Newest, r.view.Pending = s.Version, len(s.Pending)
	if r.view.Older() && !r.warned {
		r.warned = true
		r.deps.Log.Warn("another node has newer time-zone data: this node goes on with its own", "version",
			r.view.Version, "newest", r.view.Newest)
	}
}
