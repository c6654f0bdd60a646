package mysql

import (
	"context"
	"database/sql"
)

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
