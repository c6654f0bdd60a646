package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ dbsqlc.DBTX = (*tx)(nil)

// tx is a READ COMMITTED transaction on a connection of its own. It ends with commit or rollback. It is not an sql.Tx,
// because no context bounds the COMMIT of an sql.Tx.
type tx struct{ *sql.Conn }

// begin opens a transaction. Sessions in the pools of writes and of rings do not commit by themselves, so there the
// first statement begins the transaction, which saves a round trip. begin skips connections that died in the pool.
func (d *Driver) begin(ctx context.Context, db *sql.DB) (*tx, error) {
	for tries := 1; ; tries++ {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, fmt.Errorf("get a connection: %w", err)
		}
		if db == d.writes || db == d.rings {
			return &tx{conn}, nil
		}
		_, err = conn.ExecContext(ctx, "START TRANSACTION")
		if err == nil {
			return &tx{conn}, nil
		}
		_ = conn.Close()
		if tries == 3 || !errors.Is(err, driver.ErrBadConn) {
			return nil, fmt.Errorf("begin: %w", err)
		}
	}
}

// commit commits and ends the transaction. After an error it is certainly rolled back, except after
// clock.ErrUnconfirmed.
func (t *tx) commit(ctx context.Context) error {
	if err := t.endWith(ctx, "COMMIT"); err != nil {
		t.rollback(ctx)
		return err
	}
	_ = t.Close()
	return nil
}

// commitAndBegin commits. The session does not commit by itself, so its next statement begins the next transaction.
// TiDB would ignore AND CHAIN. The errors have the meaning of commit's errors, but the caller must still roll back.
func (t *tx) commitAndBegin(ctx context.Context) error { return t.endWith(ctx, "COMMIT") }

func (t *tx) endWith(ctx context.Context, statement string) error {
	if err := ctx.Err(); err != nil {
		return err // the statement was not sent, so nothing is committed
	}
	_, err := t.ExecContext(ctx, statement)
	if err == nil || definite(err) {
		return err
	}
	return clock.Unconfirmed(fmt.Errorf("mysql: commit: %w", err))
}

// rollbackAndBegin releases the locks. The next statement begins the next transaction, as after commitAndBegin.
func (t *tx) rollbackAndBegin(ctx context.Context) error {
	_, err := t.ExecContext(ctx, "ROLLBACK")
	return err
}

// rollback rolls back and ends the transaction, even if ctx has ended. If the ROLLBACK fails, the connection is closed
// and the server rolls back.
func (t *tx) rollback(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := t.ExecContext(ctx, "ROLLBACK"); err != nil {
		t.discard()
	}
	_ = t.Close()
}

// discard closes the connection, which would otherwise return to its pool.
func (t *tx) discard() { _ = t.Raw(func(any) error { return driver.ErrBadConn }) }

// Commit commits and ends the transaction, as commit does.
func (t *tx) Commit(ctx context.Context) error { return t.commit(ctx) }

// Rollback rolls back and ends the transaction, as rollback does.
func (t *tx) Rollback(ctx context.Context) { t.rollback(ctx) }

// inTx runs do in a transaction of the pool and commits. After an error of do it rolls back.
func (d *Driver) inTx(ctx context.Context, db *sql.DB, do func(t *tx) error) error {
	return engine.InTx(ctx, func(ctx context.Context) (*tx, error) { return d.begin(ctx, db) }, do)
}
