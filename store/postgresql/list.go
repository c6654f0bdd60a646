package postgresql

import (
	"context"
	"errors"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// List passes the alarms of one application to take, in the order of their keys, until take returns false (ListAlarms).
func (s *Store) List(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	leave, err := s.gate.AcquireList(ctx)
	if err != nil {
		return s.mapError("list", err)
	}
	defer leave()
	return s.mapError("list", withReason(ctx, s.list(ctx, q, take)))
}

// withReason adds the error of an ended context to err, because the server says only that the statement was cancelled.
func withReason(ctx context.Context, err error) error {
	if ended := ctx.Err(); err != nil && ended != nil && !errors.Is(err, ended) {
		return errors.Join(ended, err)
	}
	return err
}

// list reads row by row: the generated method would hold all rows at once.
func (s *Store) list(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) error {
	rows, err := s.reads.Query(ctx, dbsqlc.ListAlarms, q.Application, q.After, q.Prefix, store.PrefixEnd(q.Prefix),
		column(q.States, func(state *clock.State) int64 { return int64(*state) }), int64(q.DueAfter), int64(q.DueBefore), int32(q.Limit))
	if err != nil {
		return err
	}
	defer rows.Close()
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
		if ctx.Err() != nil { // more rows may already be in the buffer
			return ctx.Err()
		}
	}
	return rows.Err()
}
