package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// ProbeWrite commits a transaction that inserts an alarm and deletes it (InsertAlarms, DeleteAlarm).
func (s *Store) ProbeWrite(ctx context.Context, now clock.Instant) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.transact(ctx, s.writes, "probe writes", func(t *tx, _ bool) error {
		w := &writeTx{tx: t, s: s, server: s.known()}
		return store.Probe(ctx, w, now, s.ShardCount(), func(id int64) (int64, error) { return s.q.DeleteAlarm(ctx, t, id) })
	})
}
