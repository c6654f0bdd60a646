package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ store.Store = (*Store)(nil)

// Deps are what a Store uses.
type Deps struct {
	Log        *slog.Logger          // nil: none
	Registerer prometheus.Registerer // of the store's metrics; nil: they are counted for nobody
}

// Store is a store.Store in MySQL or MariaDB.
type Store struct {
	cfg     Config
	log     *slog.Logger
	metrics *store.Metrics
	q       *dbsqlc.Queries
	db      *sql.DB // requests that read
	writes  *sql.DB // requests that write
	rings   *sql.DB // claims only
	upkeep  *sql.DB // all else
	insert  optimism

	mu     sync.Mutex
	server server
	shards int
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
	d, err := cfg.driver(log)
	if err != nil {
		return nil, err
	}
	metrics, err := store.NewMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: log, metrics: metrics, q: dbsqlc.New()}
	for _, p := range []struct {
		pool       **sql.DB
		conns      int
		autocommit bool
	}{{&s.db, cfg.Conns, true}, {&s.writes, cfg.WriteConns, false}, {&s.rings, cfg.RingConns, false}, {&s.upkeep, cfg.UpkeepConns, true}} {
		if *p.pool, err = open(d, p.conns, p.autocommit); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// pools returns those that are open.
func (s *Store) pools() []*sql.DB {
	return slices.DeleteFunc([]*sql.DB{s.rings, s.upkeep, s.writes, s.db}, func(p *sql.DB) bool { return p == nil })
}

// Close shuts all connections that are idle, and the others when their calls and claims end.
func (s *Store) Close() error {
	var errs []error
	for _, p := range s.pools() {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// HoldsClaims returns true: a claim may hold a transaction.
func (s *Store) HoldsClaims() bool { return true }

// ShardCount returns what Check read, 0 before.
func (s *Store) ShardCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards
}

// Engine returns "mariadb" or "mysql" and the server's version, as Check read it.
func (s *Store) Engine() string { return s.known().String() }

// known returns what Check read of the server.
func (s *Store) known() server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
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
	row, err := s.q.GetAlarm(ctx, s.db, dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, unknownAlarm(k)
	}
	if err != nil {
		return nil, s.mapError("get", err)
	}
	a, err := alarmOf(row)
	if err != nil {
		return nil, s.mapError("get", err)
	}
	attempts, err := s.q.ListAttempts(ctx, s.db, dbsqlc.ListAttemptsParams{AlarmID: a.ID, Limit: clock.MaxAttempts})
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

func unknownAlarm(k clock.Key) error {
	return &clock.Error{
		Kind: clock.ErrNotFound, Code: clock.CodeUnknownAlarm,
		Detail: fmt.Sprintf("application %q has no alarm %q", k.Application, k.BusinessID),
	}
}
