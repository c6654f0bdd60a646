package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ListEnding lists the rows (ListEnding).
func (d *Driver) ListEnding(ctx context.Context, now clock.Instant, ids []int64) ([]int64, error) {
	return d.q.ListEnding(ctx, in(d.ofPlacedIDs(ids), d.upkeep), dbsqlc.ListEndingParams{Ids: ids, Now: int64(now)})
}

// DeleteFinished deletes finished alarms in one statement (PurgeAlarms).
func (d *Driver) DeleteFinished(ctx context.Context, p engine.Purge) (int, error) {
	n, err := d.q.PurgeAlarms(ctx, in(d.ofPlacement(p.Placement), d.upkeep), dbsqlc.PurgeAlarmsParams{
		Build: store.BuildLevel(), Before: int64(p.Before), Settled: int64(p.Settled), RowLimit: int32(p.Limit),
	})
	return int(n), err
}
