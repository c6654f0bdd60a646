package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// AddSightings adds the rows, one by one (AddSighting).
func (d *Driver) AddSightings(ctx context.Context, rows []engine.SightingRow) error {
	return d.inTx(ctx, d.upkeep, func(t *tx) error {
		for _, row := range rows {
			if err := d.q.AddSighting(ctx, t, dbsqlc.AddSightingParams(row)); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadSightings reads rows by their key (ListSightings).
func (d *Driver) ReadSightings(ctx context.Context, applications []string) ([]engine.SightingRow, error) {
	rows, err := d.q.ListSightings(ctx, d.reads, applications)
	return engine.Column(rows, func(r *dbsqlc.ApplicationSighting) engine.SightingRow {
		return engine.SightingRow(*r)
	}), err
}

// DeleteSightings deletes old rows (DeleteSightings).
func (d *Driver) DeleteSightings(ctx context.Context, before clock.Instant, limit int) (deleted int, err error) {
	err = d.inTx(ctx, d.upkeep, func(t *tx) error {
		n, err := d.q.DeleteSightings(ctx, t,
			dbsqlc.DeleteSightingsParams{SeenBefore: int64(before), Limit: int32(limit)})
		deleted = int(n)
		return err
	})
	return deleted, err
}
