package mysql

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// List passes the alarms of one application to take, in the order of their keys, until take returns false (ListAlarms).
func (s *Store) List(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) error {
	if !utf8.ValidString(q.Prefix) {
		return clock.Invalid(clock.CodeInvalidValue, "prefix", "prefix must be UTF-8")
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	leave, err := s.gate.AcquireList(ctx)
	if err != nil {
		return s.mapError("list", err)
	}
	defer leave()
	return s.mapError("list", s.list(ctx, q, take))
}

// list reads row by row: the generated method would hold all rows at once.
func (s *Store) list(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) error {
	query, args := listStatement(q)
	rows, err := s.reads.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var row store.Row
		if err := rows.Scan(row.Fields()...); err != nil {
			return err
		}
		a, err := row.Alarm()
		if err != nil {
			return err
		}
		if !take(&a) {
			return nil
		}
	}
	return rows.Err()
}

// listStatement returns the statement ListAlarms and its arguments in order.
func listStatement(q clock.ListQuery) (query string, args []any) {
	states := q.States
	if len(states) == 0 {
		states = clock.States()
	}
	query = strings.Replace(dbsqlc.ListAlarms, "/*SLICE:states*/?", strings.Repeat(",?", len(states))[1:], 1)
	args = append(args, q.Application, q.After, q.Prefix, store.PrefixEnd(q.Prefix), q.Prefix)
	for _, state := range states {
		args = append(args, int64(state))
	}
	return query, append(args, int64(q.DueAfter), int64(q.DueAfter), int64(q.DueBefore), int64(q.DueBefore), q.Limit)
}
