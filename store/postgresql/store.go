package postgresql

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

var _ store.Store = (*Store)(nil)

// Store is a store.Store in PostgreSQL.
type Store struct {
	cfg     Config
	log     *slog.Logger
	metrics *store.Metrics
	q       *dbsqlc.Queries
	pool    *pgxpool.Pool // requests that write, and keys of answers
	reads   *pgxpool.Pool // requests that read alarms
	gate    *store.ReadGate
	rings   *pgxpool.Pool // claims only
	upkeep  *pgxpool.Pool // loading, expiring, purging
	leases  *pgxpool.Pool // leases and the clock, apart from reads that may hang

	mu     sync.Mutex
	shards int
	engine string
}

// New returns a Store that connects at its first use. Migrate, if needed, and Check must come before all other methods.
func New(cfg Config, deps Deps) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	metrics, err := store.NewMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: log, metrics: metrics, q: dbsqlc.New(), gate: store.NewReadGate(cfg.ReadConns)}
	for _, p := range []struct {
		pool     **pgxpool.Pool
		conns    int
		settings map[string]string
	}{
		{&s.pool, cfg.Conns, sessionSettings()}, {&s.reads, cfg.ReadConns, readSettings()}, {&s.rings, cfg.RingConns, ringSettings()},
		{&s.upkeep, cfg.UpkeepConns, upkeepSettings()}, {&s.leases, leaseConns, upkeepSettings()},
	} {
		c, err := cfg.pool(p.conns, p.settings)
		if err == nil && p.pool == &s.reads {
			cancelAtServer(c)
		}
		if err == nil {
			*p.pool, err = pgxpool.NewWithConfig(context.Background(), c)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// pools returns the open pools.
func (s *Store) pools() []*pgxpool.Pool {
	return slices.DeleteFunc([]*pgxpool.Pool{s.rings, s.leases, s.upkeep, s.pool, s.reads}, func(p *pgxpool.Pool) bool { return p == nil })
}

// Close closes all connections. It waits for running calls and open claims.
func (s *Store) Close() error {
	for _, p := range s.pools() {
		p.Close()
	}
	return nil
}

// HoldsClaims returns true: a claim may hold a transaction open.
func (s *Store) HoldsClaims() bool { return true }

// ShardCount returns the shard count that Check read; 0 before Check.
func (s *Store) ShardCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards
}

// Engine returns "postgresql" and the server's version, as Check read it.
func (s *Store) Engine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

// Time returns the server's clock in microseconds since the epoch (ReadTime).
func (s *Store) Time(ctx context.Context) (int64, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	micros, err := s.q.ReadTime(ctx, s.leases)
	return micros, s.mapError("read the time", err)
}

// Get returns the alarm with its attempts (GetAlarm, ListAttempts).
func (s *Store) Get(ctx context.Context, k clock.Key) (*clock.Alarm, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	leave, err := s.gate.AcquireSingle(ctx)
	if err != nil {
		return nil, s.mapError("get", err)
	}
	defer leave()
	row, err := s.q.GetAlarm(ctx, s.reads, dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, unknownAlarm(k)
	}
	if err != nil {
		return nil, s.mapError("get", withReason(ctx, err))
	}
	a, err := alarmOf(row)
	if err != nil {
		return nil, s.mapError("get", err)
	}
	attempts, err := s.q.ListAttempts(ctx, s.reads, dbsqlc.ListAttemptsParams{AlarmID: a.ID, RowLimit: clock.MaxAttempts})
	if err != nil {
		return nil, s.mapError("get attempts", withReason(ctx, err))
	}
	a.Attempts = attemptsOf(attempts)
	return &a, nil
}

// deadline adds Config.Timeout to a context that has no deadline.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.cfg.Timeout)
}

// cleanupContext returns a context for cleaning up after a failed call. It does not end with the call's context.
func cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}
