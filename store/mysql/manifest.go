package mysql

import (
	"context"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// ReadManifests reads the row of the application (GetManifest).
func (d *Driver) ReadManifests(ctx context.Context, application string) (engine.ManifestRow, error) {
	row, err := d.q.GetManifest(ctx, d.leases, application)
	return engine.ManifestRow(row), err
}

// ReadNextManifests reads the rows of the next applications (ListManifests).
func (d *Driver) ReadNextManifests(ctx context.Context, after string, limit int) ([]engine.ManifestRow, error) {
	rows, err := d.q.ListManifests(ctx, d.leases,
		dbsqlc.ListManifestsParams{AfterApplication: after, Limit: int32(limit)})
	return engine.Column(rows, func(r *dbsqlc.ApplicationManifest) engine.ManifestRow {
		return engine.ManifestRow(*r)
	}), err
}

// ReadManifests reads the row of the application (GetManifest).
func (t *settingsTx) ReadManifests(ctx context.Context, application string) (engine.ManifestRow, error) {
	row, err := t.d.q.GetManifest(ctx, t.tx, application)
	return engine.ManifestRow(row), err
}

// PutManifests writes the row (PutManifest).
func (t *settingsTx) PutManifests(ctx context.Context, row *engine.ManifestRow) error {
	return t.d.q.PutManifest(ctx, t.tx, dbsqlc.PutManifestParams(*row))
}
