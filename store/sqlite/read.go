package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// ReadAlarm reads one row and the newest attempts, as of one moment (GetAlarm, ListAttempts).
func (d *Driver) ReadAlarm(ctx context.Context, k clock.Key, limit int) (engine.Row, []engine.AttemptRow, error) {
	alarm, err := d.reading.prepare(ctx, dbsqlc.GetAlarm)
	if err != nil {
		return engine.Row{}, nil, err
	}
	attempts, err := d.reading.prepare(ctx, dbsqlc.ListAttempts)
	if err != nil {
		return engine.Row{}, nil, err
	}
	t, err := d.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return engine.Row{}, nil, err
	}
	defer func() { _ = t.Rollback() }()
	row, err := d.q.GetAlarm(ctx, prepared{t.StmtContext(ctx, alarm)},
		dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
	if err != nil {
		return engine.Row{}, nil, err
	}
	rows, err := d.q.ListAttempts(ctx, prepared{t.StmtContext(ctx, attempts)},
		dbsqlc.ListAttemptsParams{AlarmID: row.ID, RowLimit: int64(limit)})
	return engine.Row(row), engine.Column(rows, func(r *dbsqlc.RingAttempt) engine.AttemptRow { return engine.AttemptRow(*r) }), err
}

// listedRows is how many rows a statement of a list reads.
const listedRows = 16

// ReadList runs a statement for a few rows, because the driver interrupts a statement only before its first row when
// the context ends, and SQLite prepares it again for each run (ListAlarms, ListRepeating).
func (d *Driver) ReadList(ctx context.Context, q *engine.ListQuery, take func(*engine.Row) bool) error {
	text := dbsqlc.ListAlarms
	if q.Repeating {
		text = dbsqlc.ListRepeating
	}
	statement, err := d.reading.prepare(ctx, text)
	if err != nil {
		return err
	}
	p := dbsqlc.ListAlarmsParams{
		Application: q.Application, Lower: max(q.Prefix, successor(q.After)), Upper: q.End,
		States: jsonNumbers(q.States),
	}
	for left := q.Limit; left > 0; left -= int(p.RowLimit) {
		p.RowLimit = int64(min(left, listedRows))
		rows, err := d.nextListed(ctx, prepared{statement}, q, p)
		if err != nil {
			return err
		}
		for i := range rows {
			row := engine.Row(rows[i])
			if !take(&row) {
				return nil
			}
			p.Lower = successor(row.BusinessID)
		}
		if len(rows) < int(p.RowLimit) {
			return nil
		}
	}
	return nil
}

// nextListed reads the next rows of a list by its prepared statement.
func (d *Driver) nextListed(
	ctx context.Context, statement prepared, q *engine.ListQuery, p dbsqlc.ListAlarmsParams,
) ([]dbsqlc.Alarm, error) {
	if !q.Repeating {
		return d.q.ListAlarms(ctx, statement, p)
	}
	return d.q.ListRepeating(ctx, statement, dbsqlc.ListRepeatingParams{
		Application: p.Application, Lower: p.Lower, Upper: p.Upper, RowLimit: p.RowLimit,
	})
}

// ReadListBound finds two neighbouring business ids (ListBound).
func (d *Driver) ReadListBound(ctx context.Context, q *engine.ListQuery, entries int) ([]string, error) {
	return d.q.ListBound(ctx, d.reads, dbsqlc.ListBoundParams{
		Application: q.Application, Lower: max(q.Prefix, successor(q.After)), Upper: q.End, Entries: int64(entries),
	})
}

// ReadAlarmsOf reads the rows one by one: in this process, a statement for each key costs as much as one for all
// (GetAlarm).
func (d *Driver) ReadAlarmsOf(ctx context.Context, keys []clock.Key) ([]engine.Row, error) {
	statement, err := d.reading.prepare(ctx, dbsqlc.GetAlarm)
	if err != nil {
		return nil, err
	}
	var found []engine.Row
	for _, k := range keys {
		row, err := d.q.GetAlarm(ctx, prepared{statement},
			dbsqlc.GetAlarmParams{Application: k.Application, BusinessID: k.BusinessID})
		switch {
		case err == nil:
			found = append(found, engine.Row(row))
		case !errors.Is(err, sql.ErrNoRows):
			return nil, err
		}
	}
	return found, nil
}

// ReadNextApplications reads the next names of all (NextApplications).
func (d *Driver) ReadNextApplications(ctx context.Context, after []string) ([]string, error) {
	names, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return d.q.NextApplications(ctx, d.reads, string(names))
}

// ReadStateCounts counts alarms by state (CountStates).
func (d *Driver) ReadStateCounts(ctx context.Context, application string, limit int) (clock.StateCounts, error) {
	rows, err := d.q.CountStates(ctx, d.reads,
		dbsqlc.CountStatesParams{Application: application, RowLimit: int64(limit)})
	return engine.StateCounts(rows, func(r *dbsqlc.CountStatesRow) (state, count int64) { return r.State, r.Count }), err
}

// ReadNextAttentionApplication reads the next name (NextAttentionApplication).
func (d *Driver) ReadNextAttentionApplication(ctx context.Context, after string) (string, error) {
	return d.q.NextAttentionApplication(ctx, d.reads, after)
}

// ReadAttention reads business ids (ListAttention).
func (d *Driver) ReadAttention(ctx context.Context, q *engine.ListQuery, state clock.State) ([]string, error) {
	return d.q.ListAttention(ctx, d.reads, dbsqlc.ListAttentionParams{
		Application: q.Application, State: int64(state), Lower: max(q.Prefix, successor(q.After)), Upper: q.End,
		RowLimit: int64(q.Limit),
	})
}

// CountAttention counts alarms (CountAttention).
func (d *Driver) CountAttention(ctx context.Context, application string, state clock.State, limit int) (int64, error) {
	return d.q.CountAttention(ctx, d.reads,
		dbsqlc.CountAttentionParams{Application: application, State: int64(state), RowLimit: int64(limit)})
}

// ReadKeys reads the keys of ids (ListKeys).
func (d *Driver) ReadKeys(ctx context.Context, ids []int64) (map[int64]clock.Key, error) {
	rows, err := d.q.ListKeys(ctx, d.loading, jsonNumbers(ids))
	return engine.KeysByID(rows, func(r dbsqlc.ListKeysRow) engine.KeyRow { return engine.KeyRow(r) }), err
}

// prepared is a DBTX that always runs its one prepared query. It ignores the query text.
type prepared struct{ *sql.Stmt }

var _ dbsqlc.DBTX = prepared{}

// ExecContext panics: the statement is a query.
func (prepared) ExecContext(context.Context, string, ...any) (sql.Result, error) {
	panic("sqlite: a prepared query is executed")
}

// PrepareContext panics: the statement is already prepared.
func (prepared) PrepareContext(context.Context, string) (*sql.Stmt, error) {
	panic("sqlite: a prepared query is prepared")
}

// QueryContext runs the query.
func (p prepared) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return p.Stmt.QueryContext(ctx, args...)
}

// QueryRowContext runs the query.
func (p prepared) QueryRowContext(ctx context.Context, _ string, args ...any) *sql.Row {
	return p.Stmt.QueryRowContext(ctx, args...)
}

// successor returns the smallest string greater than after, by bytes. For "", which is before every id, it returns "".
func successor(after string) string {
	if after == "" {
		return ""
	}
	return after + "\x00"
}
