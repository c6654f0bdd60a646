package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// ListEnding lists the rows (ListEnding).
func (d *Driver) ListEnding(ctx context.Context, now clock.Instant, ids []int64) ([]int64, error) {
	return d.q.ListEnding(ctx, d.loading, dbsqlc.ListEndingParams{Ids: jsonNumbers(ids), Now: int64(now)})
}

// DeleteFinished deletes finished alarms with their attempts and time zones (PurgeAlarms, DeleteAttemptsOf,
// DeleteZonesOf).
func (d *Driver) DeleteFinished(ctx context.Context, p engine.Purge) (deleted int, err error) {
	err = engine.InTx(ctx, d.beginGuarded, func(tx *writeTx) error {
		ids, err := d.q.PurgeAlarms(ctx, tx,
			dbsqlc.PurgeAlarmsParams{Earlier: int64(p.Before), Settled: int64(p.Settled), RowLimit: int64(p.Limit)})
		if err != nil || len(ids) == 0 {
			return err
		}
		deleted = len(ids)
		if err := d.q.DeleteAttemptsOf(ctx, tx, jsonNumbers(ids)); err != nil {
			return err
		}
		return d.q.DeleteZonesOf(ctx, tx, jsonNumbers(ids))
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
