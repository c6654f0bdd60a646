package mysql

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// ReadIDs lists ids (ListIDs).
func (d *Driver) ReadIDs(ctx context.Context, after int64, limit int) ([]int64, error) {
	return d.q.ListIDs(ctx, d.upkeep, dbsqlc.ListIDsParams{After: after, Limit: int32(limit)})
}

// MarkRestored marks the alarms (DoubtDue, RaiseAttempts, RaiseGenerations).
func (d *Driver) MarkRestored(ctx context.Context, m engine.RestoredMark) (counts store.RestoredCounts, err error) {
	err = d.inTx(ctx, d.upkeep, func(t *tx) error {
		oldest, err := d.q.ReadOldestBuild(ctx, t)
		if err == nil {
			err = store.CheckBuild(oldest)
		}
		if err != nil {
			return err
		}
		now := int64(m.Now)
		if counts.InDoubt, err = d.q.DoubtDue(ctx, t, dbsqlc.DoubtDueParams{Reason: m.Reason, Now: now, Ids: m.IDs}); err != nil {
			return err
		}
		if err := d.q.RaiseAttempts(ctx, t, dbsqlc.RaiseAttemptsParams{ByCount: m.Raise, Ids: m.IDs, Now: now}); err != nil {
			return err
		}
		counts.Raised, err = d.q.RaiseGenerations(ctx, t,
			dbsqlc.RaiseGenerationsParams{ByCount: m.Raise, Ids: m.IDs, Now: now})
		return err
	})
	return counts, err
}

// sqlNextID sets the next id of an alarm. A statement that defines a table takes no parameters.
const sqlNextID = "ALTER TABLE alarm AUTO_INCREMENT = %d"

// SkipIDs skips ids above the highest one (ReadLastID).
func (d *Driver) SkipIDs(ctx context.Context, count int64) error {
	last, err := d.q.ReadLastID(ctx, d.upkeep)
	if err != nil {
		return err
	}
	_, err = d.upkeep.ExecContext(ctx, fmt.Sprintf(sqlNextID, last+1+count))
	return err
}
