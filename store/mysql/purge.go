package mysql

import (
	"context"
	"math/rand/v2"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// maxPurge is the largest number of rows in one transaction, so that no transaction holds its locks for long.
const maxPurge = 500

// Purge deletes the alarms that finished before the instant, up to maxPurge in one transaction (ListFinished, LockFinished, PurgeAlarms,
// DeleteAttemptsOf).
func (s *Store) Purge(ctx context.Context, before, settled clock.Instant, limit int) (int, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	shards := max(1, s.ShardCount()) // the shard count is 0 before Check
	b := bulk{DBTX: s.upkeep, part: finishedOfShard, rows: shards, args: finishedArgs(shards, before, limit)}
	ids, err := s.q.ListFinished(ctx, b, dbsqlc.ListFinishedParams{})
	if err != nil {
		return 0, s.mapError("list finished alarms", err)
	}
	deleted := 0
	for from := 0; from < len(ids); from += maxPurge {
		n, err := s.purge(ctx, before, settled, ids[from:min(from+maxPurge, len(ids))])
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// finishedArgs returns the arguments of ListFinished. They begin with a random shard, so that no shard is always the last while the purger is
// behind. MariaDB reads every shard's rows before it applies the common limit, so a shard gives at most twice its share.
func finishedArgs(shards int, before clock.Instant, limit int) []any {
	args := make([]any, 0, 3*shards+1)
	first, share := rand.IntN(shards), min(limit, max(10, 2*limit/shards))
	for i := range shards {
		args = append(args, int64((first+i)%shards), int64(before), int64(share))
	}
	return append(args, int64(limit))
}

func (s *Store) purge(ctx context.Context, before, settled clock.Instant, ids []int64) (deleted int, err error) {
	err = s.transact(ctx, s.upkeep, "purge", func(t *tx, _ bool) error {
		deleted = 0
		free, err := s.q.LockFinished(ctx, t, dbsqlc.LockFinishedParams{Build: store.BuildLevel(), Ids: ids, Earlier: int64(before), Settled: int64(settled)})
		if err != nil || len(free) == 0 {
			return err
		}
		if err := s.q.DeleteAttemptsOf(ctx, t, free); err != nil {
			return err
		}
		n, err := s.q.PurgeAlarms(ctx, t, dbsqlc.PurgeAlarmsParams{Ids: free, Earlier: int64(before), Settled: int64(settled)})
		deleted = int(n)
		return err
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
