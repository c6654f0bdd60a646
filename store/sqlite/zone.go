package sqlite

import (
	"context"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// PutZones notes the time zones, one by one (PutZone).
func (t *groupTx) PutZones(ctx context.Context, zones []engine.AlarmZone) error {
	for _, z := range zones {
		if err := t.q.PutZone(ctx, t, dbsqlc.PutZoneParams(z)); err != nil {
			return err
		}
	}
	return nil
}

// ListZoned lists alarms of a time zone (ListZoned).
func (d *Driver) ListZoned(ctx context.Context, timeZone string, after int64, limit int) ([]int64, error) {
	return d.q.ListZoned(ctx, d.loading,
		dbsqlc.ListZonedParams{TimeZone: timeZone, After: after, RowLimit: int64(limit)})
}

// ReadZoneState reads the state of recomputations (ReadZoneState).
func (d *Driver) ReadZoneState(ctx context.Context) (int64, string, error) {
	row, err := d.q.ReadZoneState(ctx, d.loading)
	return row.Revision, row.Document, err
}

// WriteZoneState writes the state of recomputations (WriteZoneState).
func (d *Driver) WriteZoneState(ctx context.Context, revision int64, document string) (written int64, err error) {
	err = engine.InTx(ctx, d.begin, func(t *writeTx) (err error) {
		written, err = t.q.WriteZoneState(ctx, t, dbsqlc.WriteZoneStateParams{Document: document, Revision: revision})
		return err
	})
	return written, err
}
