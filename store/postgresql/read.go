package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadAlarm reads one row and then the newest attempts (GetAlarm, ListAttempts).
func (d *Driver) ReadAlarm(ctx context.Context, k clock.Key, limit int) (engine.Row, []engine.AttemptRow, error) {
	db := in(d.ofKey(k), d.reads)
	row, err := d.q.GetAlarm(ctx, db, dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
	if err != nil {
		return engine.Row{}, nil, err
	}
	rows, err := d.q.ListAttempts(ctx, db, dbsqlc.ListAttemptsParams{AlarmID: row.ID, RowLimit: int32(limit)})
	return engine.Row(row), engine.Column(rows, func(r *dbsqlc.RingAttempt) engine.AttemptRow { return engine.AttemptRow(*r) }), err
}

// ReadList reads row by row: the generated method would hold all rows at once (ListAlarms).
func (d *Driver) ReadList(ctx context.Context, q *engine.ListQuery, take func(*engine.Row) bool) error {
	rows, err := d.reads.Query(ctx, dbsqlc.ListAlarms, q.Application, q.After, q.Prefix, q.PrefixEnd,
		engine.Column(q.States, func(state *clock.State) int64 { return int64(*state) }), int64(q.DueAfter), int64(q.DueBefore), int32(q.Limit))
	if err != nil {
		return err
	}
	defer rows.Close()
	return engine.EachRow(ctx, rows, take)
}

// ReadKeys reads the keys of ids (ListKeys).
func (d *Driver) ReadKeys(ctx context.Context, ids []int64) (map[int64]clock.Key, error) {
	rows, err := d.q.ListKeys(ctx, in(d.ofIDs(ids), d.pool), ids)
	return engine.KeysByID(rows, func(r dbsqlc.ListKeysRow) engine.KeyRow { return engine.KeyRow(r) }), err
}
