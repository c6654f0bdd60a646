package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// EndExpired ends due rows whose latest_ring_at has passed, in one statement (ExpireAlarms).
func (d *Driver) EndExpired(ctx context.Context, now clock.Instant, ids []int64) ([]store.EndedAlarm, error) {
	rows, err := d.q.ExpireAlarms(ctx, in(d.ofPlacedIDs(ids), d.upkeep), dbsqlc.ExpireAlarmsParams{
		Ids: ids, Now: int64(now), Build: store.BuildLevel(),
		Doubt: clock.ReasonInDoubt, Unacknowledged: clock.ReasonUnacknowledged, Reason: clock.ReasonExpired,
	})
	return engine.Column(rows, func(r *dbsqlc.ExpireAlarmsRow) store.EndedAlarm {
		return store.EndedAlarm{
			Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, ID: r.ID, State: clock.Expired, Reason: r.LastError,
		}
	}), err
}

// DeleteFinished deletes finished alarms in one statement (PurgeAlarms).
func (d *Driver) DeleteFinished(ctx context.Context, p engine.Purge) (int, error) {
	n, err := d.q.PurgeAlarms(ctx, in(d.ofPlacement(p.Placement), d.upkeep), dbsqlc.PurgeAlarmsParams{
		Build: store.BuildLevel(), Before: int64(p.Before), Settled: int64(p.Settled), RowLimit: int32(p.Limit),
	})
	return int(n), err
}
