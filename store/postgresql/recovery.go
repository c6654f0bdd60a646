package postgresql

import (
	"context"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadIDs lists ids (ListIDs).
func (d *Driver) ReadIDs(ctx context.Context, after int64, limit int) ([]int64, error) {
	return d.q.ListIDs(ctx, d.upkeep, dbsqlc.ListIDsParams{After: after, RowLimit: int32(limit)})
}

// MarkRestored marks the alarms (DoubtDue, RaiseGenerations).
func (d *Driver) MarkRestored(ctx context.Context, m engine.RestoredMark) (counts store.RestoredCounts, err error) {
	begin := func(ctx context.Context) (*tx, error) { return beginGuarded(ctx, d.upkeep, d.cfg.Timeout) }
	err = engine.InTx(ctx, begin, func(t *tx) (err error) {
		t.shards = d.ofPlacedIDs(m.IDs)
		counts.InDoubt, err = d.q.DoubtDue(ctx, t,
			dbsqlc.DoubtDueParams{Reason: m.Reason, Now: int64(m.Now), Ids: m.IDs})
		if err == nil {
			counts.Raised, err = d.q.RaiseGenerations(ctx, t,
				dbsqlc.RaiseGenerationsParams{ByCount: m.Raise, Ids: m.IDs, Now: int64(m.Now)})
		}
		return err
	})
	return counts, err
}

// SkipIDs skips ids (SkipIDs), in a distributed database whole blocks (SkipIDBlocks).
func (d *Driver) SkipIDs(ctx context.Context, count int64) error {
	if d.placed.Load() != nil {
		return d.distributed.SkipIDBlocks(ctx, d.upkeep, count/blockNumbers)
	}
	return d.q.SkipIDs(ctx, d.upkeep, count)
}
