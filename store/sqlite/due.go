package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// Due reads what is due of all the shards in one statement (ListDue).
func (s *Store) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.due(ctx, q)
	if err != nil {
		return store.DuePage{}, s.mapError(ctx, "due", err)
	}
	return store.NewDuePage(q, rows), nil
}

func (s *Store) due(ctx context.Context, q store.DueQuery) ([]store.Due, error) {
	statement, err := s.dueStatement(ctx, len(q.Shards)) //nolint:sqlclosecheck // kept for the next call
	if err != nil {
		return nil, err
	}
	args := make([]any, 0, 12*len(q.Shards))
	from, until := int64(q.From.Time), int64(q.Until.Time)
	for _, shard := range q.Shards {
		args = append(args, shard, from, from, q.From.Rank, q.From.Rank, q.From.ID, until, until, q.Until.Rank, q.Until.Rank, q.Until.ID, q.Limit)
	}
	rows, err := statement.QueryContext(ctx, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var due []store.Due
	for rows.Next() {
		var d store.Due
		if err := rows.Scan(&d.Shard, &d.NextTryTime, &d.Rank, &d.ID, &d.Application); err != nil {
			return nil, err
		}
		due = append(due, d)
	}
	return due, rows.Err()
}

// dueStatement returns the due scan of so many shards, prepared: to parse it takes longer than to run it.
func (s *Store) dueStatement(ctx context.Context, shards int) (*sql.Stmt, error) {
	s.mu.Lock()
	statement := s.dueScans[shards]
	s.mu.Unlock()
	if statement != nil {
		return statement, nil
	}
	query := dbsqlc.ListDue + strings.Repeat(" UNION ALL "+dbsqlc.ListDue, shards-1)
	statement, err := s.reader.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.dueScans[shards]; first != nil { // two at once
		return first, statement.Close() //nolint:sqlclosecheck // the first is used
	}
	s.dueScans[shards] = statement
	return statement, nil
}

// Overdue counts what is due (CountDue).
func (s *Store) Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	row, err := s.q.CountDue(ctx, s.reader, dbsqlc.CountDueParams{Shards: list(shards), Now: int64(now), RowLimit: int64(limit)})
	if err != nil {
		return store.Overdue{}, s.mapError(ctx, "overdue", err)
	}
	return store.Overdue{Count: int(row.Count), Oldest: clock.Instant(row.Oldest)}, nil
}

// Expire reads a page of due rows (ListDue) and ends those of them that are too late (ExpireAlarms).
func (s *Store) Expire(
	ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int,
) ([]store.Ended, store.Position, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	q := store.DueQuery{Shards: shards, From: from, Until: store.Position{Time: now + 1}, Limit: limit}
	rows, err := s.due(ctx, q)
	if err != nil {
		return nil, from, s.mapError(ctx, "expire", err)
	}
	page := store.NewDuePage(q, rows)
	var next store.Position
	switch {
	case len(page.Rows) > limit:
		next = page.Rows[limit].Position()
		page.Rows = page.Rows[:limit]
	case page.Complete != q.Until:
		next = page.Complete
	}
	if len(page.Rows) == 0 {
		return nil, next, nil
	}
	ended, err := s.expire(ctx, now, page.Rows)
	if err != nil {
		return nil, from, s.mapError(ctx, "expire", err)
	}
	return ended, next, nil
}

// expire ends those of the rows that are too late.
func (s *Store) expire(ctx context.Context, now clock.Instant, due []store.Due) ([]store.Ended, error) {
	ids := make([]int64, len(due))
	for i, d := range due {
		ids[i] = d.ID
	}
	var ended []store.Ended
	err := s.write(ctx, func(tx *writeTx) error {
		rows, err := s.q.ExpireAlarms(ctx, tx, dbsqlc.ExpireAlarmsParams{Reason: store.ExpiredReason(""), Now: int64(now), Ids: list(ids)})
		for _, r := range rows {
			ended = append(ended, store.Ended{
				Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, ID: r.ID, State: clock.Expired, Reason: r.LastError,
			})
		}
		return err
	})
	return ended, err
}
