package sqlite

import (
	"context"
	"database/sql"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

func init() { engine.AllColumns[engine.Row, dbsqlc.RestoreAlarmsParams]("ID") }

// Restore inserts the rows one by one (RestoreAlarms).
func (t *groupTx) Restore(ctx context.Context, rows []*engine.Row) ([]int64, error) {
	ids := make([]int64, len(rows))
	for i, r := range rows {
		result, err := t.q.RestoreAlarms(ctx, t, restoreParams.Of(func(row, _ *engine.Row) { *row = *r }))
		if err != nil {
			return nil, err
		}
		if ids[i], err = result.LastInsertId(); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// AddAttempts adds attempts.
func (t *groupTx) AddAttempts(ctx context.Context, attempts []store.AlarmAttempt) error {
	return t.addAttempts(ctx, attempts)
}

// snapshot is a read transaction. While it is open, the write-ahead log grows, because no checkpoint can pass it.
type snapshot struct {
	*sql.Tx
	q *dbsqlc.Queries
}

// BeginSnapshot begins a read transaction. Its first read fixes the moment.
func (d *Driver) BeginSnapshot(ctx context.Context) (engine.Snapshot, error) {
	t, err := d.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	return &snapshot{t, d.q}, nil
}

// ReadRows reads a page (ListArchive).
func (s *snapshot) ReadRows(ctx context.Context, after int64, limit int, take func(*engine.Row) bool) error {
	rows, err := s.QueryContext(ctx, dbsqlc.ListArchive, after, int64(limit)) //nolint:rowserrcheck // EachRow returns it
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	return engine.EachRow(ctx, rows, take)
}

// ReadAttempts reads the attempts of alarms (ListAttemptsOf).
func (s *snapshot) ReadAttempts(ctx context.Context, ids []int64) ([]engine.AttemptRow, error) {
	rows, err := s.q.ListAttemptsOf(ctx, s.Tx, jsonNumbers(ids))
	return engine.Column(rows, func(r *dbsqlc.RingAttempt) engine.AttemptRow { return engine.AttemptRow(*r) }), err
}

// ReadAllSettings reads the current settings of all applications (ListSettings).
func (s *snapshot) ReadAllSettings(ctx context.Context) ([]engine.SettingRow, error) {
	rows, err := s.q.ListSettings(ctx, s.Tx)
	return engine.Column(rows, func(r *dbsqlc.ApplicationSetting) engine.SettingRow { return engine.SettingRow(*r) }), err
}

// End ends the transaction.
func (s *snapshot) End(context.Context) { _ = s.Rollback() }
