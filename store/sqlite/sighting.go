package sqlite

import (
	"context"
	"encoding/json"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// AddSightings adds the rows, one by one (AddSighting).
func (d *Driver) AddSightings(ctx context.Context, rows []engine.SightingRow) error {
	return engine.InTx(ctx, d.begin, func(t *writeTx) error {
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
	names, err := json.Marshal(applications)
	if err != nil {
		return nil, err
	}
	rows, err := d.q.ListSightings(ctx, d.reads, string(names))
	return engine.Column(rows, func(r *dbsqlc.ApplicationSighting) engine.SightingRow {
		return engine.SightingRow(*r)
	}), err
}

// DeleteSightings deletes old rows (DeleteSightings).
func (d *Driver) DeleteSightings(ctx context.Context, before clock.Instant, limit int) (deleted int, err error) {
	err = engine.InTx(ctx, d.begin, func(t *writeTx) error {
		n, err := d.q.DeleteSightings(ctx, t,
			dbsqlc.DeleteSightingsParams{SeenBefore: int64(before), RowLimit: int64(limit)})
		deleted = int(n)
		return err
	})
	return deleted, err
}
