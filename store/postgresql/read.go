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

// ReadList reads row by row: the generated method would hold all rows at once (ListAlarms, ListRepeating).
func (d *Driver) ReadList(ctx context.Context, q *engine.ListQuery, take func(*engine.Row) bool) error {
	statement, args := dbsqlc.ListAlarms, []any{q.Application, q.After, q.Prefix, q.End}
	if q.Repeating {
		statement = dbsqlc.ListRepeating
	} else {
		args = append(args, engine.Column(q.States, func(state *clock.State) int64 { return int64(*state) }))
	}
	rows, err := d.reads.Query(ctx, statement, append(args, int32(q.Limit))...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return engine.EachRow(ctx, rows, take)
}

// ReadListBound finds two neighbouring business ids (ListBound).
func (d *Driver) ReadListBound(ctx context.Context, q *engine.ListQuery, entries int) ([]string, error) {
	return d.q.ListBound(ctx, d.reads, dbsqlc.ListBoundParams{
		Application: q.Application, After: q.After, Prefix: q.Prefix, RangeEnd: q.End, Entries: int32(entries),
	})
}

// ReadAlarmsOf reads the rows of the keys (ReadAlarms).
func (d *Driver) ReadAlarmsOf(ctx context.Context, keys []clock.Key) ([]engine.Row, error) {
	applications, businessIDs := keyColumns(keys)
	rows, err := d.q.ReadAlarms(ctx, d.reads,
		dbsqlc.ReadAlarmsParams{Applications: applications, BusinessIds: businessIDs})
	return engine.Column(rows, func(r *dbsqlc.Alarm) engine.Row { return engine.Row(*r) }), err
}

// ReadNextApplications reads the next names of all (NextApplications), or of the first one (NextApplication): Citus
// runs no subquery with a limit for each row.
func (d *Driver) ReadNextApplications(ctx context.Context, after []string) ([]string, error) {
	if d.placed.Load() != nil {
		return engine.NextName(d.q.NextApplication(ctx, d.reads, after[0]))
	}
	return d.q.NextApplications(ctx, d.reads, after)
}

// ReadStateCounts counts alarms by state (CountStates).
func (d *Driver) ReadStateCounts(ctx context.Context, application string, limit int) (clock.StateCounts, error) {
	rows, err := d.q.CountStates(ctx, d.reads,
		dbsqlc.CountStatesParams{Application: application, RowLimit: int32(limit)})
	return engine.StateCounts(rows, func(r *dbsqlc.CountStatesRow) (state, count int64) { return r.State, r.Count }), err
}

// ReadNextAttentionApplication reads the next name (NextAttentionApplication).
func (d *Driver) ReadNextAttentionApplication(ctx context.Context, after string) (string, error) {
	return d.q.NextAttentionApplication(ctx, d.reads, after)
}

// ReadAttention reads business ids (ListAttention).
func (d *Driver) ReadAttention(ctx context.Context, q *engine.ListQuery, state clock.State) ([]string, error) {
	return d.q.ListAttention(ctx, d.reads, dbsqlc.ListAttentionParams{
		Application: q.Application, State: int64(state), After: q.After, Prefix: q.Prefix, RangeEnd: q.End,
		RowLimit: int32(q.Limit),
	})
}

// CountAttention counts alarms (CountAttention).
func (d *Driver) CountAttention(ctx context.Context, application string, state clock.State, limit int) (int64, error) {
	return d.q.CountAttention(ctx, d.reads,
		dbsqlc.CountAttentionParams{Application: application, State: int64(state), RowLimit: int32(limit)})
}

// ReadKeys reads the keys of ids (ListKeys).
func (d *Driver) ReadKeys(ctx context.Context, ids []int64) (map[int64]clock.Key, error) {
	rows, err := d.q.ListKeys(ctx, in(d.ofIDs(ids), d.pool), ids)
	return engine.KeysByID(rows, func(r dbsqlc.ListKeysRow) engine.KeyRow { return engine.KeyRow(r) }), err
}
