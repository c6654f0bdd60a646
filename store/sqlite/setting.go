package sqlite

import (
	"context"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// ReadSettingCounter reads the number of changes of all settings (ReadSettingCounter).
func (d *Driver) ReadSettingCounter(ctx context.Context) (int64, error) {
	return d.q.ReadSettingCounter(ctx, d.loading)
}

// ReadAllSettings reads the current settings of all applications (ListSettings).
func (d *Driver) ReadAllSettings(ctx context.Context) ([]engine.SettingRow, error) {
	rows, err := d.q.ListSettings(ctx, d.loading)
	return engine.Column(rows, func(r *dbsqlc.ApplicationSetting) engine.SettingRow { return engine.SettingRow(*r) }), err
}

// ReadSettings reads the current settings of the application (GetSetting).
func (d *Driver) ReadSettings(ctx context.Context, application string) (engine.SettingRow, error) {
	row, err := d.q.GetSetting(ctx, d.loading, application)
	return engine.SettingRow(row), err
}

// ReadSettingsHistory reads the newest versions of the application's settings (ListSettingHistory).
func (d *Driver) ReadSettingsHistory(
	ctx context.Context, application string, before int64, limit int,
) ([]engine.SettingRow, error) {
	return listSettingHistory(ctx, d.q, d.loading, application, before, limit)
}

func listSettingHistory(
	ctx context.Context, q *dbsqlc.Queries, from dbsqlc.DBTX, application string, before int64, limit int,
) ([]engine.SettingRow, error) {
	rows, err := q.ListSettingHistory(ctx, from,
		dbsqlc.ListSettingHistoryParams{Application: application, BeforeVersion: before, RowLimit: int64(limit)})
	return engine.Column(rows, func(r *dbsqlc.ApplicationSettingHistory) engine.SettingRow {
		return engine.SettingRow(*r)
	}), err
}

// settingsTx is a transaction that changes settings.
type settingsTx struct {
	*writeTx
	q *dbsqlc.Queries
}

// BeginSettings begins a transaction that changes settings.
func (d *Driver) BeginSettings(ctx context.Context) (engine.SettingsTx, error) {
	t, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	return &settingsTx{t, d.q}, nil
}

// CountChange counts the change (CountSettingChange).
func (t *settingsTx) CountChange(ctx context.Context) (int64, error) {
	return t.q.CountSettingChange(ctx, t.writeTx)
}

// ReadSettings reads the current settings of the application (GetSetting).
func (t *settingsTx) ReadSettings(ctx context.Context, application string) (engine.SettingRow, error) {
	row, err := t.q.GetSetting(ctx, t.writeTx, application)
	return engine.SettingRow(row), err
}

// PutSettings writes the row (PutSetting, AddSettingHistory).
func (t *settingsTx) PutSettings(ctx context.Context, row *engine.SettingRow) error {
	if err := t.q.PutSetting(ctx, t.writeTx, dbsqlc.PutSettingParams(*row)); err != nil {
		return err
	}
	return t.q.AddSettingHistory(ctx, t.writeTx, dbsqlc.AddSettingHistoryParams(*row))
}

// ReadSettingsHistory reads the newest versions of the application's settings (ListSettingHistory).
func (t *settingsTx) ReadSettingsHistory(
	ctx context.Context, application string, before int64, limit int,
) ([]engine.SettingRow, error) {
	return listSettingHistory(ctx, t.q, t.writeTx, application, before, limit)
}

// RewriteSettings replaces the document of the current version (RewriteSetting).
func (t *settingsTx) RewriteSettings(ctx context.Context, row *engine.SettingRow) error {
	return t.q.RewriteSetting(ctx, t.writeTx,
		dbsqlc.RewriteSettingParams{Application: row.Application, Version: row.Version, Document: row.Document})
}

// RewriteHistory replaces the document of a version in the history (RewriteSettingHistory).
func (t *settingsTx) RewriteHistory(ctx context.Context, row *engine.SettingRow) error {
	return t.q.RewriteSettingHistory(ctx, t.writeTx,
		dbsqlc.RewriteSettingHistoryParams{Application: row.Application, Version: row.Version, Document: row.Document})
}
