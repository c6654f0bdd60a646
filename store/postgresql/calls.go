package postgresql

import (
	"context"
)

func (d *Driver) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return d.calls.Deadline(ctx)
}

func (d *Driver) mapError(doing string, err error) error {
	return d.calls.MapError(context.Background(), doing, err)
}
