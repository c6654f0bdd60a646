package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// Purge deletes the alarms that finished before the instant, and their attempts (PurgeAlarms, DeleteAttemptsOf).
func (s *Store) Purge(ctx context.Context, before, settled clock.Instant, limit int) (int, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var ids []int64
	err := s.guarded(ctx, func(tx *writeTx) (err error) {
		ids, err = s.q.PurgeAlarms(ctx, tx, dbsqlc.PurgeAlarmsParams{Earlier: int64(before), Settled: int64(settled), RowLimit: int64(limit)})
		if err != nil || len(ids) == 0 {
			return err
		}
		return s.q.DeleteAttemptsOf(ctx, tx, jsonNumbers(ids))
	})
	if err != nil {
		return 0, s.mapError(ctx, "purge", err)
	}
	return len(ids), nil
}
