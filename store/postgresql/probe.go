package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// ProbeWrite commits a transaction that inserts an alarm and deletes it (InsertAlarms, DeleteAlarm).
func (s *Store) ProbeWrite(ctx context.Context, now clock.Instant) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.mapError("probe writes", s.probeWrite(ctx, now))
}

func (s *Store) probeWrite(ctx context.Context, now clock.Instant) error {
	t, err := begin(ctx, s.pool, lockWait)
	if err != nil {
		return err
	}
	defer t.close(ctx)
	w := &writeTx{tx: t, q: s.q}
	if err := store.Probe(ctx, w, now, s.ShardCount(), func(id int64) (int64, error) { return s.q.DeleteAlarm(ctx, t, id) }); err != nil {
		return err
	}
	return t.commit(ctx)
}
