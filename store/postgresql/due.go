package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadDue reads the due index of all shards in one statement (ListDue, ListDueOnly, ListDueExcept,
// ListDueOfApplication).
func (d *Driver) ReadDue(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	shards := shardsOf(q.Shards)
	db := d.inAny(shards, d.upkeep)
	named := dbsqlc.ListDueOnlyParams{
		Shards: shards, FromTime: int64(q.From.Time), FromRank: int64(q.From.Rank), FromID: q.From.ID,
		UntilTime: int64(q.Until.Time), UntilRank: int64(q.Until.Rank), UntilID: q.Until.ID, RowLimit: int32(q.Limit),
		Addressees: store.AddresseeTexts(q.Only),
	}
	switch {
	case len(q.Only) > 0:
		rows, err := d.q.ListDueOnly(ctx, db, named)
		return engine.Column(rows, func(r *dbsqlc.ListDueOnlyRow) store.Due { return dueOf((*dbsqlc.ListDueRow)(r)) }), err
	case len(q.Except) > 0:
		named.Addressees = store.AddresseeTexts(q.Except)
		rows, err := d.q.ListDueExcept(ctx, db, dbsqlc.ListDueExceptParams(named))
		return engine.Column(rows, func(r *dbsqlc.ListDueExceptRow) store.Due { return dueOf((*dbsqlc.ListDueRow)(r)) }), err
	}
	if q.Application != "" {
		rows, err := d.q.ListDueOfApplication(ctx, db, dbsqlc.ListDueOfApplicationParams{
			Shards: named.Shards, FromTime: named.FromTime, FromRank: named.FromRank, FromID: named.FromID,
			UntilTime: named.UntilTime, UntilRank: named.UntilRank, UntilID: named.UntilID, RowLimit: named.RowLimit,
			Application: q.Application,
		})
		return engine.Column(rows,
			func(r *dbsqlc.ListDueOfApplicationRow) store.Due { return dueOf((*dbsqlc.ListDueRow)(r)) }), err
	}
	rows, err := d.q.ListDue(ctx, db, dbsqlc.ListDueParams{
		Shards: named.Shards, FromTime: named.FromTime, FromRank: named.FromRank, FromID: named.FromID,
		UntilTime: named.UntilTime, UntilRank: named.UntilRank, UntilID: named.UntilID, RowLimit: named.RowLimit,
	})
	return engine.Column(rows, dueOf), err
}

// ReadDueEnds finds the end of a page with application names (ListDueEnd).
func (d *Driver) ReadDueEnds(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	shards := shardsOf(q.Shards)
	ends, err := d.q.ListDueEnd(ctx, d.inAny(shards, d.upkeep), dbsqlc.ListDueEndParams{
		Shards: shards, FromTime: int64(q.From.Time), FromRank: int64(q.From.Rank), FromID: q.From.ID,
		UntilTime: int64(q.Until.Time), UntilRank: int64(q.Until.Rank), UntilID: q.Until.ID,
		Entries: int32(q.ScanLimit),
	})
	return engine.Column(ends, func(r *dbsqlc.ListDueEndRow) store.Due { return dueOf((*dbsqlc.ListDueRow)(r)) }), err
}

func dueOf(r *dbsqlc.ListDueRow) store.Due {
	return store.Due{
		ID: r.ID, NextTryTime: clock.Instant(r.NextTryTime), Rank: int(r.DueRank), Shard: int(r.Shard),
		Application: r.Application,
	}
}

// CountDue counts the due alarms in the due index (CountDue).
func (d *Driver) CountDue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	numbers := shardsOf(shards)
	row, err := d.q.CountDue(ctx, d.inAny(numbers, d.upkeep),
		dbsqlc.CountDueParams{Shards: numbers, Now: int64(now), RowLimit: int32(limit)})
	return store.Overdue{Count: int(row.Count), Oldest: clock.Instant(row.Oldest)}, err
}

// CountPending counts the entries of one shard by application (CountPending).
func (d *Driver) CountPending(ctx context.Context, shard int) (map[string]int64, error) {
	rows, err := d.q.CountPending(ctx, d.upkeep, int64(shard))
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
		FromTime: int64(q.From), Step: q.Step.Milliseconds(), Split: q.Applications > 0,
		Application: q.Application, Shard: int64(shard), UntilTime: int64(q.Until()), RowLimit: int32(limit),
	})
	return engine.Column(rows, func(r *dbsqlc.CountDueByTimeRow) engine.DueCount { return engine.DueCount(*r) }), err
}

// shardsOf converts shards to the type of their column.
func shardsOf(shards []int) []int64 {
	return engine.Column(shards, func(n *int) int64 { return int64(*n) })
}
