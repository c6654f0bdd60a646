package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// EndExpired ends due rows whose latest_ring_at has passed (ExpireAlarms).
func (d *Driver) EndExpired(ctx context.Context, now clock.Instant, ids []int64) (ended []store.EndedAlarm, err error) {
	err = engine.InTx(ctx, d.beginGuarded, func(tx *writeTx) error {
		rows, err := d.q.ExpireAlarms(ctx, tx, dbsqlc.ExpireAlarmsParams{
			Doubt: clock.ReasonInDoubt, Unacknowledged: clock.ReasonUnacknowledged, Reason: clock.ReasonExpired, Now: int64(now), Ids: jsonNumbers(ids),
		})
		ended = engine.Column(rows, func(r *dbsqlc.ExpireAlarmsRow) store.EndedAlarm {
			return store.EndedAlarm{
				Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, ID: r.ID, State: clock.Expired, Reason: r.LastError,
			}
		})
		return err
	})
	return ended, err
}

// DeleteFinished deletes finished alarms with their attempts and time zones (PurgeAlarms, DeleteAttemptsOf, DeleteZonesOf).
func (d *Driver) DeleteFinished(ctx context.Context, p engine.Purge) (deleted int, err error) {
	err = engine.InTx(ctx, d.beginGuarded, func(tx *writeTx) error {
		ids, err := d.q.PurgeAlarms(ctx, tx, dbsqlc.PurgeAlarmsParams{Earlier: int64(p.Before), Settled: int64(p.Settled), RowLimit: int64(p.Limit)})
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
