package mysql

import (
	"cmp"
	"context"
	"math/rand/v2"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// ListEnding lists the rows (ListEnding).
func (d *Driver) ListEnding(ctx context.Context, now clock.Instant, ids []int64) ([]int64, error) {
	return d.q.ListEnding(ctx, d.upkeep, dbsqlc.ListEndingParams{Ids: ids, Now: int64(now)})
}

// DeleteFinished deletes finished alarms (ListFinished, LockFinished, PurgeAlarms, DeleteAttemptsOf, DeleteZonesOf,
// DeleteRepeatingOf, DeleteAttentionOf).
func (d *Driver) DeleteFinished(ctx context.Context, p engine.Purge) (deleted int, err error) {
	b := bulk{DBTX: d.upkeep, rows: p.Shards, args: finishedArgs(p.Shards, p.Before, p.Limit)}
	ids, err := d.q.ListFinished(ctx, b, dbsqlc.ListFinishedParams{Limit_2: int32(p.Limit)})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	err = d.inTx(ctx, d.upkeep, func(t *tx) error {
		free, err := lockFree(d.known(), t, ids, cmp.Compare[int64], func(db dbsqlc.DBTX, part []int64) ([]int64, error) {
			return d.q.LockFinished(ctx, db,
				dbsqlc.LockFinishedParams{Build: store.BuildLevel(), Ids: part, Earlier: int64(p.Before),
					Settled: int64(p.Settled)})
		})
		if err != nil || len(free) == 0 {
			return err
		}
		if err := d.q.DeleteAttemptsOf(ctx, t, free); err != nil {
			return err
		}
		if err := d.q.DeleteZonesOf(ctx, t, free); err != nil {
			return err
		}
		if err := d.q.DeleteRepeatingOf(ctx, t, free); err != nil {
			return err
		}
		if err := d.q.DeleteAttentionOf(ctx, t, free); err != nil {
			return err
		}
		n, err := d.q.PurgeAlarms(ctx, t,
			dbsqlc.PurgeAlarmsParams{Ids: free, Earlier: int64(p.Before), Settled: int64(p.Settled)})
		if deleted = int(n); err == nil && deleted != len(free) { // an alarm was armed again: it keeps its attempts and schedule
			return engine.ErrReplay
		}
		return err
	})
	return deleted, err
}

// finishedArgs returns the arguments of ListFinished for its shards. They begin with a random shard, so that no shard
// is always the last while the purger is behind. MariaDB reads every shard's rows before it applies the common limit,
// so a shard gives at most twice its share.
func finishedArgs(shards int, before clock.Instant, limit int) []any {
	args := make([]any, 0, 3*shards+1) // and the common limit
	first, share := rand.IntN(shards), min(limit, max(10, 2*limit/shards))
	for i := range shards {
		args = append(args, int64((first+i)%shards), int64(before), int64(share))
	}
	return args
}
