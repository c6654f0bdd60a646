package postgresql

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

var (
	_ dbsqlc.DBTX = (*tx)(nil)
	_ dbsqlc.DBTX = (*pipeline)(nil)
)

const (
	sqlBegin    = "begin isolation level read committed"
	sqlCommit   = "commit"
	sqlRollback = "rollback"
)

// tx runs transactions one after the other on a connection of its own. BEGIN travels with the first statement of each
// transaction. A transaction ends with commit, rollback or send. In the end close returns the connection to its pool.
type tx struct {
	conn  *pgxpool.Conn
	setup []string // statements before the first statement
	guard bool     // check the build level and read the clock before the first statement
	begun bool
	clock clock.Instant // server's clock at the first statement; set only with guard

	shards []int64 // shards of all rows, in a distributed database; nil on one server
}

// begin takes a connection for transactions whose statements wait at most lockTimeout for a lock. 0 means the session's
// own timeout.
func begin(ctx context.Context, pool *pgxpool.Pool, lockTimeout time.Duration) (*tx, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("get a connection: %w", err)
	}
	t := &tx{conn: conn, setup: []string{sqlBegin}}
	if lockTimeout > 0 {
		t.setup = append(t.setup, "set local lock_timeout = "+millis(lockTimeout))
	}
	return t, nil
}

// beginGuarded is begin for transactions that take or change alarms. The first statement of each transaction fails with
// store.ErrOldBuild if the database demands a newer build. The check costs no round trip.
func beginGuarded(ctx context.Context, pool *pgxpool.Pool, lockTimeout time.Duration) (*tx, error) {
	t, err := begin(ctx, pool, lockTimeout)
	if err == nil {
		t.guard = true
	}
	return t, err
}

// Exec runs a statement.
func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.shards != nil {
		sql, args = inShards(sql, args, t.shards)
	}
	if t.begun {
		return t.conn.Exec(ctx, sql, args...)
	}
	results, err := t.sendFirst(ctx, sql, args)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	tag, err := results.Exec()
	if closed := results.Close(); err == nil {
		err = closed
	}
	return tag, err
}

// Query runs a statement that returns rows.
func (t *tx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if t.shards != nil {
		sql, args = inShards(sql, args, t.shards)
	}
	if t.begun {
		return t.conn.Query(ctx, sql, args...)
	}
	results, err := t.sendFirst(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	rows, err := results.Query()
	if err != nil {
		_ = results.Close()
		return nil, err
	}
	return &firstRows{Rows: rows, results: results}, nil
}

// QueryRow runs a statement that returns one row. It must not be the first statement of a transaction.
func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	if t.shards != nil {
		sql, args = inShards(sql, args, t.shards)
	}
	return t.conn.QueryRow(ctx, sql, args...)
}

// sendFirst sends the setup and the first statement in one batch. The next result of the returned batch is the result
// of the statement.
func (t *tx) sendFirst(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	var b pgx.Batch
	for _, statement := range t.setup {
		b.Queue(statement)
	}
	if t.guard {
		b.Queue(dbsqlc.AllowBuild, store.BuildLevel())
	}
	b.Queue(sql, args...)
	t.begun = true
	results := t.conn.SendBatch(ctx, &b)
	for range t.setup {
		if _, err := results.Exec(); err != nil {
			_ = results.Close()
			return nil, err
		}
	}
	if t.guard {
		var micros int64
		err := results.QueryRow().Scan(&micros)
		if errors.Is(err, pgx.ErrNoRows) {
			err = store.ErrOldBuild
		}
		if err != nil {
			_ = results.Close()
			return nil, err
		}
		t.clock = clock.Instant(micros / 1000)
	}
	return results, nil
}

// firstRows are the rows of a transaction's first statement.
type firstRows struct {
	pgx.Rows
	results pgx.BatchResults
}

// Close closes the rows and their batch.
func (r *firstRows) Close() {
	r.Rows.Close()
	_ = r.results.Close()
}

// pipeline is a DBTX that collects statements without results. tx.send runs them.
type pipeline struct {
	pgx.Batch
	shards []int64 // like tx.shards
}

// Exec queues the statement. tx.send returns its error.
func (p *pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if p.shards != nil {
		sql, args = inShards(sql, args, p.shards)
	}
	p.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query panics: a pipeline returns no rows.
func (p *pipeline) Query(context.Context, string, ...any) (pgx.Rows, error) {
	panic("postgresql: a query in a pipeline")
}

// QueryRow panics: a pipeline returns no rows.
func (p *pipeline) QueryRow(context.Context, string, ...any) pgx.Row {
	panic("postgresql: a query in a pipeline")
}

// send runs the pipeline's statements and COMMIT in one round trip. The transaction must have begun, or the pipeline
// must begin it.
func (t *tx) send(ctx context.Context, p *pipeline) error {
	if err := t.usable(ctx); err != nil {
		return err
	}
	p.Queue(sqlCommit)
	results := t.conn.SendBatch(ctx, &p.Batch)
	var tag pgconn.CommandTag
	var err error
	commits := false
	for i := range p.QueuedQueries {
		commits = i == len(p.QueuedQueries)-1
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return t.committed(tag, err, commits)
}

// commit commits the transaction. It does nothing if no statement has run.
func (t *tx) commit(ctx context.Context) error {
	if !t.begun {
		return nil
	}
	if err := t.usable(ctx); err != nil {
		return err
	}
	tag, err := t.conn.Exec(ctx, sqlCommit)
	return t.committed(tag, err, true)
}

// usable returns an error if COMMIT cannot be sent. Then certainly nothing was written.
func (t *tx) usable(ctx context.Context) error {
	if t.conn.Conn().IsClosed() {
		return errClosed
	}
	return ctx.Err()
}

// committed judges the end of a transaction. commits says that err, if there is one, is an error of COMMIT itself.
func (t *tx) committed(tag pgconn.CommandTag, err error, commits bool) error {
	if err == nil && tag.String() != "COMMIT" {
		err = errRolledBack
	}
	t.begun = err != nil
	return commitError(err, commits && t.shards != nil)
}

// rollback rolls back the transaction. Afterwards tx may begin another transaction.
func (t *tx) rollback(ctx context.Context) error {
	if !t.begun || t.conn.Conn().IsClosed() {
		return nil
	}
	ctx, cancel := cleanupContext(ctx)
	defer cancel()
	_, err := t.conn.Exec(ctx, sqlRollback)
	t.begun = err != nil
	return err
}

// close rolls back an open transaction and returns the connection to its pool. The pool destroys a connection in an
// unknown state.
func (t *tx) close(ctx context.Context) {
	if t.conn == nil {
		return
	}
	if !t.conn.Conn().IsClosed() && t.conn.Conn().PgConn().TxStatus() != 'I' {
		_ = t.rollback(ctx)
	}
	t.conn.Release()
	t.conn = nil
}

// Commit commits and returns the connection to its pool.
func (t *tx) Commit(ctx context.Context) error {
	defer t.close(ctx)
	return t.commit(ctx)
}

// Rollback rolls back and returns the connection to its pool.
func (t *tx) Rollback(ctx context.Context) { t.close(ctx) }
