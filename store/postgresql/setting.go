package postgresql

import (
	"context"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadSettingCounter reads the number of changes of all settings (ReadSettingCounter).
func (d *Driver) ReadSettingCounter(ctx context.Context) (int64, error) {
	return d.q.ReadSettingCounter(ctx, d.leases)
}

// ReadAllSettings reads the current settings of all applications (ListSettings).
func (d *Driver) ReadAllSettings(ctx context.Context) ([]engine.SettingRow, error) {
	rows, err := d.q.ListSettings(ctx, d.leases)
	return engine.Column(rows, func(r *dbsqlc.ApplicationSetting) engine.SettingRow { return engine.SettingRow(*r) }), err
}

// ReadSettings reads the current settings of the application (GetSetting).
func (d *Driver) ReadSettings(ctx context.Context, application string) (engine.SettingRow, error) {
	row, err := d.q.GetSetting(ctx, d.leases, application)
	return engine.SettingRow(row), err
}

// ReadSettingsHistory reads the newest versions of the application's settings (ListSettingHistory).
func (d *Driver) ReadSettingsHistory(
	ctx context.Context, application string, before int64, limit int,
) ([]engine.SettingRow, error) {
	return listSettingHistory(ctx, d.q, d.leases, application, before, limit)
}

func listSettingHistory(
	ctx context.Context, q *dbsqlc.Queries, from dbsqlc.DBTX, application string, before int64, limit int,
) ([]engine.SettingRow, error) {
	rows, err := q.ListSettingHistory(ctx, from,
		dbsqlc.ListSettingHistoryParams{Application: application, BeforeVersion: before, RowLimit: int32(limit)})
	return engine.Column(rows, func(r *dbsqlc.ApplicationSettingHistory) engine.SettingRow {
		return engine.SettingRow(*r)
	}), err
}

// changeTx is a transaction that changes settings, tokens or jobs.
type changeTx struct {
	*tx
	q *dbsqlc.Queries
}

func (d *Driver) beginChange(ctx context.Context) (*changeTx, error) {
	t, err := begin(ctx, d.leases, upkeepLockWait)
	if err != nil {
		return nil, err
	}
	return &changeTx{t, d.q}, nil
}

// settingsTx is a transaction that changes settings.
type settingsTx struct{ *changeTx }

// BeginSettings begins a transaction that changes settings.
func (d *Driver) BeginSettings(ctx context.Context) (engine.SettingsTx, error) {
	t, err := d.beginChange(ctx)
	if err != nil {
		return nil, err
	}
	return &settingsTx{t}, nil
}

// CountChange counts the change (CountSettingChange).
func (t *settingsTx) CountChange(ctx context.Context) (int64, error) {
	return t.q.CountSettingChange(ctx, t.tx)
}

// ReadSettings reads the current settings of the application (GetSetting).
func (t *settingsTx) ReadSettings(ctx context.Context, application string) (engine.SettingRow, error) {
	row, err := t.q.GetSetting(ctx, t.tx, application)
	return engine.SettingRow(row), err
}

// PutSettings writes the row (PutSetting, AddSettingHistory).
func (t *settingsTx) PutSettings(ctx context.Context, row *engine.SettingRow) error {
	if err := t.q.PutSetting(ctx, t.tx, dbsqlc.PutSettingParams(*row)); err != nil {
		return err
	}
	return t.q.AddSettingHistory(ctx, t.tx, dbsqlc.AddSettingHistoryParams(*row))
}

// ReadSettingsHistory reads the newest versions of the application's settings (ListSettingHistory).
func (t *settingsTx) ReadSettingsHistory(
	ctx context.Context, application string, before int64, limit int,
) ([]engine.SettingRow, error) {
	return listSettingHistory(ctx, t.q, t.tx, application, before, limit)
}

// RewriteSettings replaces the document of the current version (RewriteSetting).
func (t *settingsTx) RewriteSettings(ctx context.Context, row *engine.SettingRow) error {
	return t.q.RewriteSetting(ctx, t.tx,
		dbsqlc.RewriteSettingParams{Application: row.Application, Version: row.Version, Document: row.Document})
}

// RewriteHistory replaces the document of a version in the history (RewriteSettingHistory).
func (t *settingsTx) RewriteHistory(ctx context.Context, row *engine.SettingRow) error {
	return t.q.RewriteSettingHistory(ctx, t.tx,
		dbsqlc.RewriteSettingHistoryParams{Application: row.Application, Version: row.Version, Document: row.Document})
}
