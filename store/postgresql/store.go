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
	pool    *pgxpool.Pool // requests only
	rings   *pgxpool.Pool // claims only
	upkeep  *pgxpool.Pool // all else

	mu     sync.Mutex
	shards int
	engine string
}

// New returns a Store that connects when it is used; Check must succeed first.
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
	s := &Store{cfg: cfg, log: log, metrics: metrics, q: dbsqlc.New()}
	for _, p := range []struct {
		pool     **pgxpool.Pool
		conns    int
		settings map[string]string
	}{{&s.pool, cfg.Conns, session()}, {&s.rings, cfg.RingConns, ringSession()}, {&s.upkeep, cfg.UpkeepConns, upkeepSession()}} {
		c, err := cfg.pool(p.conns, p.settings)
		if err == nil {
			*p.pool, err = pgxpool.NewWithConfig(context.Background(), c)
		}
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// pools returns those that are open.
func (s *Store) pools() []*pgxpool.Pool {
	return slices.DeleteFunc([]*pgxpool.Pool{s.rings, s.upkeep, s.pool}, func(p *pgxpool.Pool) bool { return p == nil })
}

// Close shuts all connections; it waits for calls that are on their way and for claims.
func (s *Store) Close() error {
	for _, p := range s.pools() {
		p.Close()
	}
	return nil
}

// HoldsClaims returns true: a claim may hold a transaction.
func (s *Store) HoldsClaims() bool { return true }

// ShardCount returns what Check read, 0 before.
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
	micros, err := s.q.ReadTime(ctx, s.upkeep)
	return micros, s.mapError("read the time", err)
}

// Get returns the alarm with its attempts (GetAlarm, ListAttempts).
func (s *Store) Get(ctx context.Context, k clock.Key) (*clock.Alarm, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	row, err := s.q.GetAlarm(ctx, s.pool, dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, unknownAlarm(k)
	}
	if err != nil {
		return nil, s.mapError("get", err)
	}
	a, err := alarmOf(row)
	if err != nil {
		return nil, s.mapError("get", err)
	}
	attempts, err := s.q.ListAttempts(ctx, s.pool, dbsqlc.ListAttemptsParams{AlarmID: a.ID, RowLimit: clock.MaxAttempts})
	if err != nil {
		return nil, s.mapError("get attempts", err)
	}
	a.Attempts = attemptsOf(attempts)
	return &a, nil
}

// deadline gives a call a deadline of its own where the caller's context has none.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.cfg.Timeout)
}

// aftermath returns a context for cleaning up after a call that failed, maybe because its own context ended.
func aftermath(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), time.Second)
}
