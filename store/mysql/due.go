package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// ReadDue reads the due index of all shards in one statement (ListDue, ListDueOnly, ListDueExcept,
// ListDueOfApplication).
func (d *Driver) ReadDue(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	return d.due(ctx, d.upkeep, q)
}

func (d *Driver) due(ctx context.Context, db dbsqlc.DBTX, q *store.DueQuery) ([]store.Due, error) {
	switch {
	case len(q.Only) > 0:
		return unpackEntries(d.q.ListDueOnly(ctx, dueBulk(db, q, named(q.Only), q.Limit), dbsqlc.ListDueOnlyParams{}))
	case len(q.Except) > 0:
		return unpackEntries(d.q.ListDueExcept(ctx, dueBulk(db, q, named(q.Except), q.Limit), dbsqlc.ListDueExceptParams{}))
	case q.Application != "":
		return unpackEntries(d.q.ListDueOfApplication(ctx, dueBulk(db, q, q.Application, q.Limit),
			dbsqlc.ListDueOfApplicationParams{}))
	default:
		return unpackEntries(d.q.ListDue(ctx, dueBulk(db, q, "", q.Limit), dbsqlc.ListDueParams{}))
	}
}

// ReadDueEnds finds the end of a page with application names (ListDueEnd).
func (d *Driver) ReadDueEnds(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	return unpackEntries(d.q.ListDueEnd(ctx, dueBulk(d.upkeep, q, "", q.ScanLimit), dbsqlc.ListDueEndParams{}))
}

// unpackEntries unpacks the rows of ListDue and its variants.
func unpackEntries(found []string, err error) ([]store.Due, error) {
	rows := make([]store.Due, len(found))
	for i := 0; i < len(found) && err == nil; i++ {
		rows[i], err = unpackEntry(found[i])
	}
	return rows, err
}

// unpackEntry unpacks one entry of the due index, in the column order of ListDue.
func unpackEntry(entry string) (store.Due, error) {
	p := engine.Unpack(entry)
	d := store.Due{Shard: int(p.Number()), NextTryTime: clock.Instant(p.Number()), Rank: int(p.Number()),
		ID: p.Number()}
	d.Application = p.Rest()
	return d, p.End()
}

// named returns addressees as ListDueOnly and ListDueExcept take them.
func named(addressees []store.Addressee) string {
	return strings.Join(store.AddresseeTexts(addressees), ",")
}

// dueBulk returns the bulk of ListDue or a variant. filter is what the variant compares, "" for ListDue. last is the
// last argument of the SELECT for a single shard.
func dueBulk(db dbsqlc.DBTX, q *store.DueQuery, filter string, last int) bulk {
	return bulk{DBTX: db, rows: len(q.Shards), args: dueArgs(q, filter, last)}
}

// dueArgs returns the arguments of ListDue or a variant.
func dueArgs(q *store.DueQuery, filter string, last int) []any {
	args := make([]any, 0, 13*len(q.Shards))
	from, until := int64(q.From.Time), int64(q.Until.Time)
	fromRank, untilRank := int64(q.From.Rank), int64(q.Until.Rank)
	for _, shard := range q.Shards {
		args = append(args, int64(shard), from, from, fromRank, fromRank, q.From.ID, until, until, untilRank, untilRank,
			q.Until.ID)
		if filter != "" {
			args = append(args, filter)
		}
		args = append(args, int64(last))
	}
	return args
}

// CountDue counts the due alarms in the due index (CountDue), and finds the oldest (ListOldest).
func (d *Driver) CountDue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	o := store.Overdue{Oldest: clock.NoInstant}
	numbers := engine.Column(shards, func(n *int) int64 { return int64(*n) })
	count, err := d.q.CountDue(ctx, d.upkeep,
		dbsqlc.CountDueParams{Shards: numbers, Now: int64(now), Limit: int32(limit)})
	if err != nil || count == 0 {
		return o, err
	}
	b := bulk{DBTX: d.upkeep, rows: len(shards), args: oldestArgs(numbers, now)}
	oldest, err := d.q.ListOldest(ctx, b, dbsqlc.ListOldestParams{})
	if err != nil {
		return o, fmt.Errorf("find the oldest: %w", err)
	}
	for _, r := range oldest {
		if t := engine.FromNull(r); o.Oldest == clock.NoInstant || t < o.Oldest {
			o.Oldest = t
		}
	}
	if o.Oldest != clock.NoInstant { // the counted alarms may have rung meanwhile
		o.Count = int(count)
	}
	return o, nil
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
		Begin: int64(q.From), Step: q.Step.Milliseconds(), Split: engine.Bit(q.Applications > 0),
		Application: q.Application, Shard: int64(shard),
		FromTime: engine.ToNull(q.From), UntilTime: engine.ToNull(q.Until()), Limit: int32(limit),
	})
	return engine.Column(rows, func(r *dbsqlc.CountDueByTimeRow) engine.DueCount { return engine.DueCount(*r) }), err
}

// oldestArgs returns the arguments of ListOldest.
func oldestArgs(shards []int64, now clock.Instant) []any {
	args := make([]any, 0, 2*len(shards))
	for _, n := range shards {
		args = append(args, n, int64(now))
	}
	return args
}
