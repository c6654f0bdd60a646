package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	_ "modernc.org/sqlite" // the driver

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

var _ store.Store = (*Store)(nil)

// Store is a store.Store in a SQLite file.
type Store struct {
	cfg     Config
	log     *slog.Logger
	metrics *store.Metrics
	path    string
	q       *dbsqlc.Queries
	writer  *sql.DB // one connection for all writes
	reader  *sql.DB // loading, leases, keys of answers, and the file's settings
	reads   *sql.DB // requests that read alarms
	gate    *store.ReadGate

	mu     sync.Mutex
	shards int
	engine string

	dueScans map[dueScan]*sql.Stmt // prepared due scans; reader closes them
}

// New returns a Store that opens its file at its first use. Migrate, if needed, and Check must come before all other methods.
func New(cfg Config, deps Deps) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	log := deps.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	path, err := cfg.path()
	if err != nil {
		return nil, err
	}
	metrics, err := store.NewMetrics(deps.Registerer)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, log: log, metrics: metrics, path: path, q: dbsqlc.New(), dueScans: make(map[dueScan]*sql.Stmt), gate: store.NewReadGate(cfg.ReadConns)}
	if s.writer, err = open(path, writePragmas, 1); err != nil {
		return nil, err
	}
	if s.reader, err = open(path, readPragmas, cfg.Readers); err != nil {
		_ = s.writer.Close()
		return nil, err
	}
	if s.reads, err = open(path, readPragmas, cfg.ReadConns); err != nil {
		_, _ = s.reader.Close(), s.writer.Close()
		return nil, err
	}
	return s, nil
}

// open returns a pool that keeps up to conns connections to the file.
func open(path string, pragmas []string, conns int) (*sql.DB, error) {
	db, err := sql.Open("sqlite", dsn(path, pragmas))
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", path, err)
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db, nil
}

// Close closes all connections. It waits for running calls.
func (s *Store) Close() error {
	return errors.Join(s.reads.Close(), s.reader.Close(), s.writer.Close())
}

// HoldsClaims returns false: while a claim held the only writer, no alarm could be set.
func (s *Store) HoldsClaims() bool { return false }

// ShardCount returns the shard count that Check read; 0 before Check.
func (s *Store) ShardCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards
}

// Engine returns "sqlite" and the library's version, as Check read it.
func (s *Store) Engine() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

// Time returns the machine's clock in microseconds since the epoch, to the millisecond (ReadTime).
func (s *Store) Time(ctx context.Context) (int64, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	micros, err := s.q.ReadTime(ctx, s.reader)
	return micros, s.mapError(ctx, "read the time", err)
}

// Get returns the alarm with its attempts, as of one moment (GetAlarm, ListAttempts).
func (s *Store) Get(ctx context.Context, k clock.Key) (*clock.Alarm, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	leave, err := s.gate.AcquireSingle(ctx)
	if err != nil {
		return nil, s.mapError(ctx, "get", err)
	}
	defer leave()
	tx, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, s.mapError(ctx, "get", err)
	}
	defer rollback(tx)
	a, err := s.get(ctx, tx, k)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, unknownAlarm(k)
	}
	if err != nil {
		return nil, s.mapError(ctx, "get", err)
	}
	attempts, err := s.q.ListAttempts(ctx, tx, dbsqlc.ListAttemptsParams{AlarmID: a.ID, RowLimit: clock.MaxAttempts})
	if err != nil {
		return nil, s.mapError(ctx, "get attempts", err)
	}
	a.Attempts = attemptsOf(attempts)
	return &a, nil
}

// get reads one row, or sql.ErrNoRows.
func (s *Store) get(ctx context.Context, db dbsqlc.DBTX, k clock.Key) (clock.Alarm, error) {
	row, err := s.q.GetAlarm(ctx, db, dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
	if err != nil {
		return clock.Alarm{}, err
	}
	return alarmOf(row)
}

// deadline adds Config.Timeout to a context that has no deadline.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, s.cfg.Timeout)
}
