package mysql

import (
	"context"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// PutZones notes the time zones (PutZones).
func (w *writeTx) PutZones(ctx context.Context, zones []engine.AlarmZone) error {
	return w.d.inChunks(len(zones), func(from, to int) error {
		args := make([]any, 0, 2*(to-from))
		for _, z := range zones[from:to] {
			args = append(args, z.AlarmID, z.TimeZone)
		}
		return w.d.q.PutZones(ctx, bulk{DBTX: w.tx, rows: to - from, args: args}, dbsqlc.PutZonesParams{})
	})
}

// ListZoned lists alarms of a time zone (ListZoned).
func (d *Driver) ListZoned(ctx context.Context, timeZone string, after int64, limit int) ([]int64, error) {
	return d.q.ListZoned(ctx, d.upkeep, dbsqlc.ListZonedParams{TimeZone: timeZone, After: after, Limit: int32(limit)})
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
