package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// Due reads the due index of all shards in one statement (ListDue). With application names it takes two: the first finds the end of the page
// (ListDueEnd), the second reads it (ListDueOnly, ListDueExcept).
func (s *Store) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.due(ctx, &q)
	if err != nil {
		return store.DuePage{}, s.mapError(ctx, "due", err)
	}
	return store.NewDuePage(q, rows), nil
}

// due reads the alarms that q asks for. A read with application names moves q.Until forward.
func (s *Store) due(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	if !q.Filtered() {
		return s.scanDue(ctx, dbsqlc.ListDue, q, nil, q.Limit)
	}
	ends, err := s.scanDue(ctx, dbsqlc.ListDueEnd, q, nil, q.ScanLimit)
	if err != nil {
		return nil, err
	}
	q.EndBefore(ends)
	if len(q.Only) > 0 {
		return s.scanDue(ctx, dbsqlc.ListDueOnly, q, q.Only, q.Limit)
	}
	return s.scanDue(ctx, dbsqlc.ListDueExcept, q, q.Except, q.Limit)
}

// scanDue runs ListDue or a variant. last is the last argument of its SELECT for a single shard.
func (s *Store) scanDue(ctx context.Context, query string, q *store.DueQuery, applications []string, last int) ([]store.Due, error) {
	statement, err := s.dueStatement(ctx, dueScan{query, len(q.Shards)}) //nolint:sqlclosecheck // kept for the next call
	if err != nil {
		return nil, err
	}
	args := make([]any, 0, 13*len(q.Shards))
	from, until := int64(q.From.Time), int64(q.Until.Time)
	names := jsonNames(applications)
	for _, shard := range q.Shards {
		args = append(args, shard, from, from, q.From.Rank, q.From.Rank, q.From.ID, until, until, q.Until.Rank, q.Until.Rank, q.Until.ID)
		if applications != nil {
			args = append(args, names)
		}
		args = append(args, last)
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

// jsonNames returns a JSON array of application names. No character of a valid name needs an escape.
func jsonNames(applications []string) string { return `["` + strings.Join(applications, `","`) + `"]` }

// dueScan identifies a prepared due scan.
type dueScan struct {
	query  string // SELECT for a single shard
	shards int
}

// dueStatement returns a prepared due scan. It keeps prepared scans, because parsing one takes longer than running it.
func (s *Store) dueStatement(ctx context.Context, d dueScan) (*sql.Stmt, error) {
	s.mu.Lock()
	statement := s.dueScans[d]
	s.mu.Unlock()
	if statement != nil {
		return statement, nil
	}
	query := d.query + strings.Repeat(" UNION ALL "+d.query, d.shards-1)
	statement, err := s.reader.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.dueScans[d]; first != nil { // another call has prepared the same scan meanwhile
		return first, statement.Close() //nolint:sqlclosecheck // the first statement is used
	}
	s.dueScans[d] = statement
	return statement, nil
}

// Overdue counts the due alarms (CountDue).
func (s *Store) Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	row, err := s.q.CountDue(ctx, s.reader, dbsqlc.CountDueParams{Shards: jsonNumbers(shards), Now: int64(now), RowLimit: int64(limit)})
	if err != nil {
		return store.Overdue{}, s.mapError(ctx, "overdue", err)
	}
	return store.Overdue{Count: int(row.Count), Oldest: clock.Instant(row.Oldest)}, nil
}

// Expire reads a page of due rows (ListDue) and ends the rows whose latest_ring_at has passed (ExpireAlarms).
func (s *Store) Expire(
	ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int,
) ([]store.EndedAlarm, store.Position, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	q := store.DueQuery{Shards: shards, From: from, Until: store.Position{Time: now + 1}, Limit: limit}
	rows, err := s.due(ctx, &q)
	if err != nil {
		return nil, from, s.mapError(ctx, "expire", err)
	}
	page := store.NewDuePage(q, rows)
	var next store.Position
	switch {
	case len(page.Rows) > limit:
		next = page.Rows[limit].Position()
		page.Rows = page.Rows[:limit]
	case page.CompleteUntil != q.Until:
		next = page.CompleteUntil
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

// expire ends the rows whose latest_ring_at has passed.
func (s *Store) expire(ctx context.Context, now clock.Instant, due []store.Due) ([]store.EndedAlarm, error) {
	ids := make([]int64, len(due))
	for i, d := range due {
		ids[i] = d.ID
	}
	var ended []store.EndedAlarm
	err := s.guarded(ctx, func(tx *writeTx) error {
		rows, err := s.q.ExpireAlarms(ctx, tx, dbsqlc.ExpireAlarmsParams{
			Doubt: clock.ReasonInDoubt, Unacknowledged: clock.ReasonUnacknowledged, Reason: clock.ReasonExpired, Now: int64(now), Ids: jsonNumbers(ids),
		})
		for _, r := range rows {
			ended = append(ended, store.EndedAlarm{
				Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, ID: r.ID, State: clock.Expired, Reason: r.LastError,
			})
		}
		return err
	})
	return ended, err
}
