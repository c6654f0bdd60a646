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

// Deps are the dependencies of a Store.
type Deps struct {
	Log        *slog.Logger          // nil: no log
	Registerer prometheus.Registerer // registry of the store's metrics; nil: they are not registered
}

// Store is a store.Store in MySQL or MariaDB.
type Store struct {
	cfg     Config
	log     *slog.Logger
	metrics *store.Metrics
	q       *dbsqlc.Queries
	db      *sql.DB // keys of answers, and the server's settings
	reads   *sql.DB // requests that read alarms
	kills   *sql.DB // ends the statements of cancelled reads at the server
	gate    *store.ReadGate
	writes  *sql.DB // requests that write
	rings   *sql.DB // claims only
	upkeep  *sql.DB // loading, expiring, purging
	leases  *sql.DB // leases and the clock, apart from reads that may hang
	insert  optimisticInsert

	mu     sync.Mutex
	server server
	shards int
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
	d, err := cfg.driver(log)
	if err != nil {
		return nil, err
	}
	metrics, err := store.NewMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: log, metrics: metrics, q: dbsqlc.New(), gate: store.NewReadGate(cfg.ReadConns)}
	for _, p := range []struct {
		pool       **sql.DB
		conns      int
		autocommit bool
	}{{&s.db, cfg.Conns, true}, {&s.writes, cfg.WriteConns, false}, {&s.rings, cfg.RingConns, false}, {&s.upkeep, cfg.UpkeepConns, true}, {&s.leases, leaseConns, true}, {&s.kills, 1, true}} {
		if *p.pool, err = open(d, p.conns, p.autocommit); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if s.reads, err = openReads(d, cfg.ReadConns, s.kills); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// pools returns the open pools.
func (s *Store) pools() []*sql.DB {
	return slices.DeleteFunc([]*sql.DB{s.reads, s.rings, s.leases, s.upkeep, s.writes, s.db, s.kills}, func(p *sql.DB) bool { return p == nil })
}

// Close closes idle connections at once, and busy connections when their calls and claims end.
func (s *Store) Close() error {
	var errs []error
	for _, p := range s.pools() {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// HoldsClaims returns true: a claim may hold a transaction open.
func (s *Store) HoldsClaims() bool { return true }

// ShardCount returns the shard count that Check read; 0 before Check.
func (s *Store) ShardCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards
}

// Engine returns "mariadb" or "mysql" and the server's version, as Check read it.
func (s *Store) Engine() string { return s.known().String() }

// known returns the server's properties that Check read; the zero server before Check.
func (s *Store) known() server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.server
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
	attempts, err := s.q.ListAttempts(ctx, s.reads, dbsqlc.ListAttemptsParams{AlarmID: a.ID, Limit: clock.MaxAttempts})
	if err != nil {
		return nil, s.mapError("get attempts", err)
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

func unknownAlarm(k clock.Key) error {
	return &clock.Error{
		Kind: clock.ErrNotFound, Code: clock.CodeUnknownAlarm,
		Detail: fmt.Sprintf("application %q has no alarm %q", k.Application, k.BusinessID),
	}
}
