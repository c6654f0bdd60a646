package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// maxPurge bounds the rows of one transaction, so that none holds its locks for long.
const maxPurge = 500

// Purge deletes what was over before the instant, some hundred rows a transaction (ListFinished, LockFinished, PurgeAlarms,
// DeleteAttemptsOf).
func (s *Store) Purge(ctx context.Context, before clock.Instant, limit int) (int, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids, err := s.q.ListFinished(ctx, s.upkeep, dbsqlc.ListFinishedParams{Earlier: int64(before), Limit: int32(limit)})
	if err != nil {
		return 0, s.mapError("list what is to be purged", err)
	}
	deleted := 0
	for from := 0; from < len(ids); from += maxPurge {
		n, err := s.purge(ctx, before, ids[from:min(from+maxPurge, len(ids))])
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

func (s *Store) purge(ctx context.Context, before clock.Instant, ids []int64) (deleted int, err error) {
	err = s.transact(ctx, s.upkeep, "purge", func(t *tx, _ bool) error {
		deleted = 0
		free, err := s.q.LockFinished(ctx, t, dbsqlc.LockFinishedParams{Ids: ids, Earlier: int64(before)})
		if err != nil || len(free) == 0 {
			return err
		}
		if err := s.q.DeleteAttemptsOf(ctx, t, free); err != nil {
			return err
		}
		n, err := s.q.PurgeAlarms(ctx, t, dbsqlc.PurgeAlarmsParams{Ids: free, Earlier: int64(before)})
		deleted = int(n)
		return err
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
