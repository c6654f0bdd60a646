package sqlite

import (
	"context"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// ReadDue reads the due index of all shards in one statement (ListDue, ListDueOnly, ListDueExcept,
// ListDueOfApplication).
func (d *Driver) ReadDue(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	switch {
	case len(q.Only) > 0:
		return d.scanDue(ctx, dbsqlc.ListDueOnly, q, named(q.Only), q.Limit)
	case len(q.Except) > 0:
		return d.scanDue(ctx, dbsqlc.ListDueExcept, q, named(q.Except), q.Limit)
	case q.Application != "":
		return d.scanDue(ctx, dbsqlc.ListDueOfApplication, q, q.Application, q.Limit)
	}
	return d.scanDue(ctx, dbsqlc.ListDue, q, "", q.Limit)
}

// ReadDueEnds finds the end of a page with application names (ListDueEnd).
func (d *Driver) ReadDueEnds(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	return d.scanDue(ctx, dbsqlc.ListDueEnd, q, "", q.ScanLimit)
}

// scanDue runs ListDue or a variant. filter is what the variant compares, "" for ListDue. last is the last argument of
// its SELECT for a single shard.
func (d *Driver) scanDue(
	ctx context.Context, query string, q *store.DueQuery, filter string, last int,
) ([]store.Due, error) {
	args := make([]any, 0, 13*len(q.Shards))
	from, until := int64(q.From.Time), int64(q.Until.Time)
	for _, shard := range q.Shards {
		args = append(args, shard, from, from, q.From.Rank, q.From.Rank, q.From.ID, until, until, q.Until.Rank,
			q.Until.Rank, q.Until.ID)
		if filter != "" {
			args = append(args, filter)
		}
		args = append(args, last)
	}
	statement, err := d.loading.prepareUnion(ctx, unionAll{query, len(q.Shards)}) //nolint:sqlclosecheck // kept for the next call
	if err != nil {
		return nil, err
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

// named returns addressees as ListDueOnly and ListDueExcept take them: a JSON array. No character of their texts needs
// an escape.
func named(addressees []store.Addressee) string {
	return `["` + strings.Join(store.AddresseeTexts(addressees), `","`) + `"]`
}

// CountDue counts the due alarms in the due index (CountDue).
func (d *Driver) CountDue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	row, err := d.q.CountDue(ctx, d.loading,
		dbsqlc.CountDueParams{Shards: jsonNumbers(shards), Now: int64(now), RowLimit: int64(limit)})
	return store.Overdue{Count: int(row.Count), Oldest: clock.Instant(row.Oldest)}, err
}

// CountPending counts the entries of one shard by application (CountPending).
func (d *Driver) CountPending(ctx context.Context, shard int) (map[string]int64, error) {
	rows, err := d.q.CountPending(ctx, d.loading, int64(shard))
	counts := make(map[string]int64, len(rows))
	for _, r := range rows {
		counts[r.Application] = r.Count
	}
	return counts, err
}

// CountDueByTime counts entries of one shard by time (CountDueByTime).
func (d *Driver) CountDueByTime(
	ctx context.Context, q *clock.ForecastQuery, shard, limit int,
) ([]engine.DueCount, error) {
	rows, err := d.q.CountDueByTime(ctx, d.reads, dbsqlc.CountDueByTimeParams{
		FromTime: int64(q.From), Step: q.Step.Milliseconds(), Split: engine.Bit(q.Applications > 0),
		Application: q.Application, Shard: int64(shard), UntilTime: int64(q.Until()), RowLimit: int64(limit),
	})
	return engine.Column(rows, func(r *dbsqlc.CountDueByTimeRow) engine.DueCount { return engine.DueCount(*r) }), err
}
