package sqlite

import (
	"context"
	"database/sql"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// List passes the alarms of one application to take, in the order of their keys, until take returns false (ListAlarms). It runs a statement
// for each alarm, because the driver interrupts a statement only before its first row when the context ends.
func (s *Store) List(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	leave, err := s.gate.AcquireList(ctx)
	if err != nil {
		return s.mapError(ctx, "list", err)
	}
	defer leave()
	return s.mapError(ctx, "list", s.list(ctx, q, take))
}

func (s *Store) list(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) error {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	statement, err := conn.PrepareContext(ctx, dbsqlc.ListAlarms)
	if err != nil {
		return err
	}
	defer func() { _ = statement.Close() }()
	states := q.States
	if len(states) == 0 {
		states = clock.States()
	}
	p := dbsqlc.ListAlarmsParams{
		Application: q.Application, Lower: max(q.Prefix, successor(q.After)), Upper: prefixEnd(q.Prefix), States: jsonNumbers(states),
		DueAfter: int64(q.DueAfter), DueBefore: int64(q.DueBefore), RowLimit: 1,
	}
	for range q.Limit {
		rows, err := s.q.ListAlarms(ctx, prepared{statement}, p)
		if err != nil || len(rows) == 0 {
			return err
		}
		a, err := alarmOf(rows[0])
		if err != nil || !take(&a) {
			return err
		}
		p.Lower = successor(a.BusinessID)
	}
	return nil
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

// prefixEnd returns the exclusive upper bound, by bytes, of the strings with the prefix.
func prefixEnd(prefix string) string {
	end := []byte(prefix)
	for len(end) > 0 {
		last := len(end) - 1
		if end[last] < 0xff {
			end[last]++
			return string(end)
		}
		end = end[:last]
	}
	return "\xff" // greater than every UTF-8 text
}
