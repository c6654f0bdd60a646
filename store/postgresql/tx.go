package postgresql

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

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

// tx is transactions on a connection of its own, one after the other. BEGIN is sent with the first statement of each; it ends
// with commit, rollback or send. In the end close gives the connection back.
type tx struct {
	conn  *pgxpool.Conn
	setup []string // statements that go before the first one
	begun bool
}

// begin takes a connection for a transaction whose statements wait for locks as long as lockTimeout (0: the session's).
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

// Exec runs a statement.
func (t *tx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	if t.begun {
		return t.conn.Exec(ctx, sql, args...)
	}
	results, err := t.first(ctx, sql, args)
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
	if t.begun {
		return t.conn.Query(ctx, sql, args...)
	}
	results, err := t.first(ctx, sql, args)
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

// QueryRow runs a statement that returns one row; never the first of a transaction.
func (t *tx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return t.conn.QueryRow(ctx, sql, args...)
}

// first sends the setup with the statement, and returns the results with the statement's next.
func (t *tx) first(ctx context.Context, sql string, args []any) (pgx.BatchResults, error) {
	var b pgx.Batch
	for _, statement := range t.setup {
		b.Queue(statement)
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
	return results, nil
}

// firstRows are the rows of a transaction's first statement.
type firstRows struct {
	pgx.Rows
	results pgx.BatchResults
}

// Close ends the rows and their batch.
func (r *firstRows) Close() {
	r.Rows.Close()
	_ = r.results.Close()
}

// pipeline collects statements without an answer of their own.
type pipeline struct{ pgx.Batch }

// Exec adds the statement; its outcome comes with tx.send.
func (p *pipeline) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	p.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query is not for pipelines.
func (p *pipeline) Query(context.Context, string, ...any) (pgx.Rows, error) {
	panic("postgresql: a query in a pipeline")
}

// QueryRow is not for pipelines.
func (p *pipeline) QueryRow(context.Context, string, ...any) pgx.Row {
	panic("postgresql: a query in a pipeline")
}

// send runs the pipeline's statements and COMMIT in one round trip, within a transaction that has begun.
func (t *tx) send(ctx context.Context, p *pipeline) error {
	if err := t.usable(ctx); err != nil {
		return err
	}
	p.Queue(sqlCommit)
	results := t.conn.SendBatch(ctx, &p.Batch)
	var tag pgconn.CommandTag
	var err error
	for range p.QueuedQueries {
		if tag, err = results.Exec(); err != nil {
			break
		}
	}
	if closed := results.Close(); err == nil {
		err = closed
	}
	return t.committed(tag, err)
}

// commit ends the transaction; without a statement there is none.
func (t *tx) commit(ctx context.Context) error {
	if !t.begun {
		return nil
	}
	if err := t.usable(ctx); err != nil {
		return err
	}
	return t.committed(t.conn.Exec(ctx, sqlCommit))
}

// usable returns why COMMIT cannot even be sent: then it is certain that nothing was written.
func (t *tx) usable(ctx context.Context) error {
	if t.conn.Conn().IsClosed() {
		return errClosed
	}
	return ctx.Err()
}

func (t *tx) committed(tag pgconn.CommandTag, err error) error {
	if err == nil && tag.String() != "COMMIT" {
		err = errRolledBack
	}
	t.begun = err != nil
	return commitError(err)
}

// rollback ends the transaction; the connection may begin another.
func (t *tx) rollback(ctx context.Context) error {
	if !t.begun || t.conn.Conn().IsClosed() {
		return nil
	}
	ctx, cancel := aftermath(ctx)
	defer cancel()
	_, err := t.conn.Exec(ctx, sqlRollback)
	t.begun = err != nil
	return err
}

// close rolls back what was not committed and gives the connection back; one in an unknown state is shut.
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
