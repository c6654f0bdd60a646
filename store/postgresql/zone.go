package postgresql

import (
	"context"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/citussqlc"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// PutZones notes the time zones (PutZones).
func (t *writeTx) PutZones(ctx context.Context, zones []engine.AlarmZone) error {
	p := dbsqlc.PutZonesParams{
		AlarmIds:  engine.Column(zones, func(z *engine.AlarmZone) int64 { return z.AlarmID }),
		TimeZones: engine.Column(zones, func(z *engine.AlarmZone) string { return z.TimeZone }),
	}
	if t.shards != nil {
		return t.d.distributed.PutZones(ctx, t, citussqlc.PutZonesParams(p))
	}
	return t.q.PutZones(ctx, t, p)
}

// ListZoned lists alarms of a time zone (ListZoned).
func (d *Driver) ListZoned(ctx context.Context, timeZone string, after int64, limit int) ([]int64, error) {
	return d.q.ListZoned(ctx, d.upkeep,
		dbsqlc.ListZonedParams{TimeZone: timeZone, After: after, RowLimit: int32(limit)})
}

// ReadZoneState reads the state of recomputations (ReadZoneState).
func (d *Driver) ReadZoneState(ctx context.Context) (int64, string, error) {
	row, err := d.q.ReadZoneState(ctx, d.leases)
	return row.Revision, row.Document, err
}

// WriteZoneState writes the state of recomputations (WriteZoneState).
func (d *Driver) WriteZoneState(ctx context.Context, revision int64, document string) (int64, error) {
	return d.q.WriteZoneState(ctx, d.leases, dbsqlc.WriteZoneStateParams{Document: document, Revision: revision})
}
