package mysql

import (
	"context"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// ReadAlarm reads one row and then the newest attempts (GetAlarm, ListAttempts).
func (d *Driver) ReadAlarm(ctx context.Context, k clock.Key, limit int) (engine.Row, []engine.AttemptRow, error) {
	row, err := d.q.GetAlarm(ctx, d.reads, dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
	if err != nil {
		return engine.Row{}, nil, err
	}
	rows, err := d.q.ListAttempts(ctx, d.reads, dbsqlc.ListAttemptsParams{AlarmID: row.ID, Limit: int32(limit)})
	return engine.Row(row), engine.Column(rows, func(r *dbsqlc.RingAttempt) engine.AttemptRow { return engine.AttemptRow(*r) }), err
}

// ReadList reads row by row: the generated method would hold all rows at once (ListAlarms, ListRepeating).
func (d *Driver) ReadList(ctx context.Context, q *engine.ListQuery, take func(*engine.Row) bool) error {
	query, args := listStatement(q)
	rows, err := d.reads.QueryContext(ctx, query, args...) //nolint:rowserrcheck // EachRow returns it
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	return engine.EachRow(ctx, rows, take)
}

// listStatement returns the statement of a list and its arguments in order.
func listStatement(q *engine.ListQuery) (query string, args []any) {
	if q.Repeating {
		return dbsqlc.ListRepeating, []any{q.Application, q.After, q.Prefix, q.End, q.Prefix, q.Limit}
	}
	query = strings.Replace(dbsqlc.ListAlarms, "/*SLICE:states*/?", strings.Repeat(",?", len(q.States))[1:], 1)
	args = append(args, q.Application, q.After, q.Prefix, q.End, q.Prefix)
	for _, state := range q.States {
		args = append(args, int64(state))
	}
	return query, append(args, q.Limit)
}

// ReadListBound finds two neighbouring business ids (ListBound).
func (d *Driver) ReadListBound(ctx context.Context, q *engine.ListQuery, entries int) ([]string, error) {
	return d.q.ListBound(ctx, d.reads, dbsqlc.ListBoundParams{
		Application: q.Application, After: q.After, Prefix: q.Prefix, RangeEnd: q.End, Offset: int32(entries),
	})
}

// ReadAlarmsOf reads the rows of the keys (ReadAlarms).
func (d *Driver) ReadAlarmsOf(ctx context.Context, keys []clock.Key) ([]engine.Row, error) {
	rows, err := d.q.ReadAlarms(ctx, bulk{DBTX: d.reads, rows: len(keys), args: keyArgs(keys)})
	return engine.Column(rows, func(r *dbsqlc.Alarm) engine.Row { return engine.Row(*r) }), err
}

// ReadNextApplications reads the next names of all (NextApplications).
func (d *Driver) ReadNextApplications(ctx context.Context, after []string) ([]string, error) {
	args := make([]any, 0, 2*len(after))
	for i, name := range after {
		args = append(args, i, name)
	}
	b := bulk{DBTX: d.reads, rows: len(after), args: args}
	rows, err := d.q.NextApplications(ctx, b, dbsqlc.NextApplicationsParams{})
	names := make([]string, len(after))
	for _, r := range rows {
		names[r.Number] = r.Application
	}
	return names, err
}

// ReadStateCounts counts alarms by state (CountStates).
func (d *Driver) ReadStateCounts(ctx context.Context, application string, limit int) (clock.StateCounts, error) {
	rows, err := d.q.CountStates(ctx, d.reads, dbsqlc.CountStatesParams{Application: application, Limit: int32(limit)})
	return engine.StateCounts(rows, func(r *dbsqlc.CountStatesRow) (state, count int64) { return r.State, r.Count }), err
}

// ReadKeys reads the keys of ids (ListKeys).
func (d *Driver) ReadKeys(ctx context.Context, ids []int64) (map[int64]clock.Key, error) {
	rows, err := d.q.ListKeys(ctx, d.db, ids)
	return engine.KeysByID(rows, func(r dbsqlc.ListKeysRow) engine.KeyRow { return engine.KeyRow(r) }), err
}
