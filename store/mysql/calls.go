package mysql

import (
	"context"
	"database/sql"

	"github.com/clockd/clockd/store/engine"
)

// Store is the receiver of the claim's methods, until they move to package engine.
type Store = Driver

func (d *Driver) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return d.calls.Deadline(ctx)
}

func (d *Driver) mapError(doing string, err error) error {
	return d.calls.MapError(context.Background(), doing, err)
}

// transact runs try in a transaction and commits. It does so again after a definite rollback; first tells try whether this is the first
// run. The error has a kind of package clock.
func (d *Driver) transact(ctx context.Context, db *sql.DB, doing string, try func(t *tx, first bool) error) error {
	first := true
	err := d.calls.Replay(ctx, func() error {
		return d.inTx(ctx, db, func(t *tx) error {
			defer func() { first = false }()
			return try(t, first)
		})
	})
	return d.mapError(doing, err)
}

// replays lets the claim repeat its transaction.
type replays struct{ *engine.Calls }

// Replay runs try until it neither fails with a definite rollback nor with store.ErrReplay.
func (r replays) Replay(ctx context.Context, _ func(error) engine.Class, try func() error) error {
	return r.Calls.Replay(ctx, try)
}

// replayReason stands for the class of an error.
var replayReason = classify
