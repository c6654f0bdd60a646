package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ dbsqlc.DBTX = (*tx)(nil)

// tx is a transaction on a connection of its own, READ COMMITTED as prepareSession says. It is no sql.Tx, because no
// context bounds that one's COMMIT. It ends with commit or rollback.
type tx struct{ *sql.Conn }

// begin opens a transaction; with the first statement in the pools of writes and of rings, whose sessions do not commit by
// themselves: a round trip less. Connections that died in the pool are passed over.
func (s *Store) begin(ctx context.Context, db *sql.DB) (*tx, error) {
	for tries := 1; ; tries++ {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, fmt.Errorf("get a connection: %w", err)
		}
		if db == s.writes || db == s.rings {
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

// commit ends the transaction: done, rolled back for certain, or clock.ErrUnconfirmed.
func (t *tx) commit(ctx context.Context) error {
	if err := t.endWith(ctx, "COMMIT"); err != nil {
		t.rollback(ctx)
		return err
	}
	_ = t.Close()
	return nil
}

// commitAndBegin commits and begins the next transaction. After an error, which is as commit's, the transaction is still to
// be rolled back.
func (t *tx) commitAndBegin(ctx context.Context) error { return t.endWith(ctx, "COMMIT AND CHAIN") }

func (t *tx) endWith(ctx context.Context, statement string) error {
	if err := ctx.Err(); err != nil {
		return err // not sent, so not committed
	}
	_, err := t.ExecContext(ctx, statement)
	if err == nil || definite(err) {
		return err
	}
	return clock.Unconfirmed(fmt.Errorf("mysql: commit: %w", err))
}

// rollbackAndBegin gives up what is locked and begins the next transaction.
func (t *tx) rollbackAndBegin(ctx context.Context) error {
	_, err := t.ExecContext(ctx, "ROLLBACK AND CHAIN")
	return err
}

// rollback ends the transaction, also after ctx. A connection that cannot do it is shut, and the server rolls back.
func (t *tx) rollback(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := t.ExecContext(ctx, "ROLLBACK"); err != nil {
		t.discard()
	}
	_ = t.Close()
}

// discard shuts the connection, which would otherwise go back to its pool.
func (t *tx) discard() { _ = t.Raw(func(any) error { return driver.ErrBadConn }) }

// transact runs try in a transaction and commits, and again after a definite rollback; first tells try whether it is
// the first time. The error is of a kind of package clock.
func (s *Store) transact(ctx context.Context, db *sql.DB, doing string, try func(t *tx, first bool) error) error {
	first := true
	err := s.metrics.Replay(ctx, replayReason, func() error {
		t, err := s.begin(ctx, db)
		if err != nil {
			return err
		}
		err = try(t, first)
		first = false
		if err != nil {
			t.rollback(ctx)
			return err
		}
		return t.commit(ctx)
	})
	return s.mapError(doing, err)
}
