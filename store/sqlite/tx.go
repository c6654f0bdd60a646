package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// busyTimeout bounds the wait for another process.
const busyTimeout = 5 * time.Second

var _ dbsqlc.DBTX = (*writeTx)(nil)

// writeTx is a transaction of the writer. Its statements are prepared once and run for each row, without the transaction's
// context: a context that can end costs a goroutine a statement, and no statement here takes long. It is looked at between two statements.
type writeTx struct {
	*sql.Tx
	q          *dbsqlc.Queries
	ctx        context.Context //nolint:containedctx // of the transaction, which is one call
	statements map[string]*sql.Stmt
}

// write runs do in a transaction that holds the file's lock, and commits unless do fails.
func (s *Store) write(ctx context.Context, do func(tx *writeTx) error) error {
	tx, err := s.begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer rollback(tx)
	if err := do(&writeTx{Tx: tx, q: s.q, ctx: ctx, statements: make(map[string]*sql.Stmt)}); err != nil {
		return err
	}
	return commitError(ctx, tx.Commit())
}

// begin waits for the file's lock, where another process has it, for busyTimeout.
func (s *Store) begin(ctx context.Context) (*sql.Tx, error) {
	begun := time.Now()
	for {
		tx, err := s.writer.BeginTx(ctx, nil)
		if !hasCode(err, lib.SQLITE_BUSY) || time.Since(begun) > busyTimeout || ctx.Err() != nil {
			return tx, err
		}
	}
}

// rollback ends a transaction that was not committed.
func rollback(tx *sql.Tx) { _ = tx.Rollback() }

// ExecContext runs a prepared statement.
func (t *writeTx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	statement, err := t.prepared(query) //nolint:sqlclosecheck // closed with the transaction
	if err != nil {
		return nil, err
	}
	return statement.ExecContext(context.WithoutCancel(t.ctx), args...)
}

// QueryRowContext runs a prepared statement that returns one row.
func (t *writeTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	statement, err := t.prepared(query) //nolint:sqlclosecheck // closed with the transaction
	if err != nil {
		return t.Tx.QueryRowContext(ctx, query, args...) // which meets the same error
	}
	return statement.QueryRowContext(context.WithoutCancel(t.ctx), args...)
}

// prepared returns the statement, which lives as long as the transaction.
func (t *writeTx) prepared(query string) (*sql.Stmt, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	if statement := t.statements[query]; statement != nil {
		return statement, nil
	}
	statement, err := t.PrepareContext(t.ctx, query)
	if err != nil {
		return nil, err
	}
	t.statements[query] = statement
	return statement, nil
}
