package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// Purge deletes the alarms that finished before the instant, in one statement (PurgeAlarms).
func (s *Store) Purge(ctx context.Context, before, settled clock.Instant, limit int) (int, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var n int64
	err := s.metrics.Replay(ctx, replayReason, func() (err error) {
		n, err = s.q.PurgeAlarms(ctx, s.upkeep, dbsqlc.PurgeAlarmsParams{Build: store.BuildLevel(), Before: int64(before), Settled: int64(settled), RowLimit: int32(limit)})
		return err
	})
	return int(n), s.mapError("purge", err)
}
