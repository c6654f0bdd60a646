package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	lib "modernc.org/sqlite/lib"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// busyTimeout bounds the wait for the file's lock while another process has it.
const busyTimeout = 5 * time.Second

var _ dbsqlc.DBTX = (*writeTx)(nil)

// writeTx is a transaction of the writer. It uses the kept statements. A statement that is not kept yet is prepared for
// this transaction alone, and wanted: a later transaction keeps it. Statements run without the transaction's context: a
// context that can end costs a goroutine for each statement, and no statement here takes long. The context is checked
// between statements.
type writeTx struct {
	*sql.Tx
	q           *dbsqlc.Queries
	ctx         context.Context      //nolint:containedctx // the context of one call, which is the whole transaction
	statements  map[string]*sql.Stmt // of this transaction
	kept        *statements
	checkpoints *checkpointer
}

// begin begins a transaction that holds the file's lock. It waits for the lock, at most busyTimeout.
func (d *Driver) begin(ctx context.Context) (*writeTx, error) {
	d.writing.prepareWanted(ctx)
	begun := time.Now()
	for {
		tx, err := d.writer.BeginTx(ctx, nil)
		if err == nil {
			return &writeTx{Tx: tx, q: d.q, ctx: ctx, statements: make(map[string]*sql.Stmt), kept: d.writing, checkpoints: d.checkpoints}, nil
		}
		if !hasCode(err, lib.SQLITE_BUSY) || time.Since(begun) > busyTimeout || ctx.Err() != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
	}
}

// beginGuarded is begin for transactions that take or change alarms. It fails with store.ErrOldBuild if the database
// demands a newer build.
func (d *Driver) beginGuarded(ctx context.Context) (*writeTx, error) {
	t, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	oldest, err := d.q.ReadOldestBuild(ctx, t)
	if err == nil {
		err = store.CheckBuild(oldest)
	}
	if err != nil {
		t.Rollback(ctx)
		return nil, err
	}
	return t, nil
}

// Commit commits.
func (t *writeTx) Commit(ctx context.Context) error {
	err := t.Tx.Commit()
	t.checkpoints.noteCommit() // also after an error: the commit may have written pages, and a checkpoint without new pages costs little
	return commitError(ctx, err)
}

// Rollback ends the transaction unless it was committed.
func (t *writeTx) Rollback(context.Context) { _ = t.Tx.Rollback() }

// ExecContext runs a prepared statement.
func (t *writeTx) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	statement, err := t.prepared(query) //nolint:sqlclosecheck // closed with the transaction
	if err != nil {
		return nil, err
	}
	return statement.ExecContext(context.WithoutCancel(t.ctx), args...)
}

// QueryContext runs a prepared statement with rows.
func (t *writeTx) QueryContext(_ context.Context, query string, args ...any) (*sql.Rows, error) {
	statement, err := t.prepared(query) //nolint:sqlclosecheck // closed with the transaction
	if err != nil {
		return nil, err
	}
	return statement.QueryContext(context.WithoutCancel(t.ctx), args...)
}

// QueryRowContext runs a prepared statement that returns one row.
func (t *writeTx) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	statement, err := t.prepared(query) //nolint:sqlclosecheck // closed with the transaction
	if err != nil {
		return t.Tx.QueryRowContext(ctx, query, args...) // the Row returns the same error
	}
	return statement.QueryRowContext(context.WithoutCancel(t.ctx), args...)
}

// prepared returns the prepared statement of the query. The transaction closes it.
func (t *writeTx) prepared(query string) (*sql.Stmt, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	if statement := t.statements[query]; statement != nil {
		return statement, nil
	}
	var statement *sql.Stmt
	if kept := t.kept.lookup(unionAll{query, 1}); kept != nil {
		statement = t.StmtContext(context.WithoutCancel(t.ctx), kept)
	} else {
		var err error
		if statement, err = t.PrepareContext(t.ctx, query); err != nil {
			return nil, err
		}
		t.kept.want(query)
	}
	t.statements[query] = statement
	return statement, nil
}
