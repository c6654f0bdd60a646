package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// ProbeWrite commits a transaction that inserts an alarm and deletes it (InsertAlarms, DeleteAlarm).
func (s *Store) ProbeWrite(ctx context.Context, now clock.Instant) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	err := s.write(ctx, func(tx *writeTx) error {
		g := &groupTx{writeTx: tx, s: s}
		return store.Probe(ctx, g, now, s.ShardCount(), func(id int64) (int64, error) { return s.q.DeleteAlarm(ctx, tx, id) })
	})
	return s.mapError(ctx, "probe writes", err)
}
