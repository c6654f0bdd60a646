package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ store.Store = (*Store)(nil)

// Deps are what a Store uses.
type Deps struct {
	Log *slog.Logger // nil: none
}

// Store is a store.Store in MySQL or MariaDB.
type Store struct {
	cfg    Config
	log    *slog.Logger
	q      *dbsqlc.Queries
	db     *sql.DB // requests and loaders
	rings  *sql.DB // claims only
	insert optimism

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
	db, err := open(d, cfg.Conns)
	if err != nil {
		return nil, err
	}
	rings, err := open(d, cfg.RingConns)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return &Store{cfg: cfg, log: log, q: dbsqlc.New(), db: db, rings: rings}, nil
}

// Close shuts all connections that are idle, and the others when their calls and claims end.
func (s *Store) Close() error {
	return errors.Join(s.rings.Close(), s.db.Close())
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
	micros, err := s.q.ReadTime(ctx, s.db)
	return micros, mapError("read the time", err)
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
		return nil, mapError("get", err)
	}
	a, err := alarmOf(row)
	if err != nil {
		return nil, mapError("get", err)
	}
	attempts, err := s.q.ListAttempts(ctx, s.db, dbsqlc.ListAttemptsParams{AlarmID: a.ID, Limit: clock.MaxAttempts})
	if err != nil {
		return nil, mapError("get attempts", err)
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
