package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// ReadDue reads the due index of all shards in one statement (ListDue, ListDueOnly, ListDueExcept).
func (d *Driver) ReadDue(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	switch {
	case len(q.Only) > 0:
		return d.scanDue(ctx, dbsqlc.ListDueOnly, q, q.Only, q.Limit)
	case len(q.Except) > 0:
		return d.scanDue(ctx, dbsqlc.ListDueExcept, q, q.Except, q.Limit)
	}
	return d.scanDue(ctx, dbsqlc.ListDue, q, nil, q.Limit)
}

// ReadDueEnds finds the end of a page with application names (ListDueEnd).
func (d *Driver) ReadDueEnds(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	return d.scanDue(ctx, dbsqlc.ListDueEnd, q, nil, q.ScanLimit)
}

// scanDue runs ListDue or a variant. last is the last argument of its SELECT for a single shard.
func (d *Driver) scanDue(ctx context.Context, query string, q *store.DueQuery, applications []string, last int) ([]store.Due, error) {
	statement, err := d.dueStatement(ctx, dueScan{query, len(q.Shards)}) //nolint:sqlclosecheck // kept for the next call
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
		var r store.Due
		if err := rows.Scan(&r.Shard, &r.NextTryTime, &r.Rank, &r.ID, &r.Application); err != nil {
			return nil, err
		}
		due = append(due, r)
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
func (d *Driver) dueStatement(ctx context.Context, scan dueScan) (*sql.Stmt, error) {
	d.mu.Lock()
	statement := d.dueScans[scan]
	d.mu.Unlock()
	if statement != nil {
		return statement, nil
	}
	query := scan.query + strings.Repeat(" UNION ALL "+scan.query, scan.shards-1)
	statement, err := d.reader.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if first := d.dueScans[scan]; first != nil { // another call has prepared the same scan meanwhile
		return first, statement.Close() //nolint:sqlclosecheck // the first statement is used
	}
	d.dueScans[scan] = statement
	return statement, nil
}

// CountDue counts the due alarms in the due index (CountDue).
func (d *Driver) CountDue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	row, err := d.q.CountDue(ctx, d.reader, dbsqlc.CountDueParams{Shards: jsonNumbers(shards), Now: int64(now), RowLimit: int64(limit)})
	return store.Overdue{Count: int(row.Count), Oldest: clock.Instant(row.Oldest)}, err
}
