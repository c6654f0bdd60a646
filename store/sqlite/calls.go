package sqlite

import (
	"context"

	"github.com/clockd/clockd/store/engine"
)

func (d *Driver) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return d.calls.Deadline(ctx)
}

func (d *Driver) mapError(ctx context.Context, doing string, err error) error {
	return d.calls.MapError(ctx, doing, err)
}

// write runs do in a transaction that holds the file's lock. It commits, or rolls back if do fails.
func (d *Driver) write(ctx context.Context, do func(tx *writeTx) error) error {
	return engine.InTx(ctx, d.begin, do)
}

// guarded is write for transactions that take or change alarms. It fails with store.ErrOldBuild if the database demands a newer build.
func (d *Driver) guarded(ctx context.Context, do func(tx *writeTx) error) error {
	return engine.InTx(ctx, d.beginGuarded, do)
}
