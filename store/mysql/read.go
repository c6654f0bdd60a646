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

// ReadList reads row by row: the generated method would hold all rows at once (ListAlarms).
func (d *Driver) ReadList(ctx context.Context, q *engine.ListQuery, take func(*engine.Row) bool) error {
	query, args := listStatement(q)
	rows, err := d.reads.QueryContext(ctx, query, args...) //nolint:rowserrcheck // EachRow returns it
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	return engine.EachRow(ctx, rows, take)
}

// listStatement returns the statement ListAlarms and its arguments in order.
func listStatement(q *engine.ListQuery) (query string, args []any) {
	query = strings.Replace(dbsqlc.ListAlarms, "/*SLICE:states*/?", strings.Repeat(",?", len(q.States))[1:], 1)
	args = append(args, q.Application, q.After, q.Prefix, q.PrefixEnd, q.Prefix)
	for _, state := range q.States {
		args = append(args, int64(state))
	}
	return query, append(args, int64(q.DueAfter), int64(q.DueAfter), int64(q.DueBefore), int64(q.DueBefore), q.Limit)
}

// ReadKeys reads the keys of ids (ListKeys).
func (d *Driver) ReadKeys(ctx context.Context, ids []int64) (map[int64]clock.Key, error) {
	rows, err := d.q.ListKeys(ctx, d.db, ids)
	return engine.KeysByID(rows, func(r dbsqlc.ListKeysRow) engine.KeyRow { return engine.KeyRow(r) }), err
}
