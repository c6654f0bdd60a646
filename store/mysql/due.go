package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// Due reads the due index of all shards in one statement (ListDue). With application names it takes two: the first finds the end of the page
// (ListDueEnd), the second reads it (ListDueOnly, ListDueExcept).
func (s *Store) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.due(ctx, s.upkeep, &q)
	if err != nil {
		return store.DuePage{}, s.mapError("read due alarms", err)
	}
	return store.NewDuePage(q, rows), nil
}

// due reads the alarms that q asks for. A read with application names moves q.Until forward.
func (s *Store) due(ctx context.Context, db dbsqlc.DBTX, q *store.DueQuery) ([]store.Due, error) {
	if !q.Filtered() {
		return unpackEntries(s.q.ListDue(ctx, dueBulk(db, dueOfShard, q, nil, q.Limit), dbsqlc.ListDueParams{}))
	}
	ends, err := unpackEntries(s.q.ListDueEnd(ctx, dueBulk(db, dueEndOfShard, q, nil, q.ScanLimit), dbsqlc.ListDueEndParams{}))
	if err != nil {
		return nil, err
	}
	q.EndBefore(ends)
	if len(q.Only) > 0 {
		b := dueBulk(db, dueOnlyOfShard.named(len(q.Only)), q, q.Only, q.Limit)
		return unpackEntries(s.q.ListDueOnly(ctx, b, dbsqlc.ListDueOnlyParams{Applications: q.Only}))
	}
	b := dueBulk(db, dueExceptOfShard.named(len(q.Except)), q, q.Except, q.Limit)
	return unpackEntries(s.q.ListDueExcept(ctx, b, dbsqlc.ListDueExceptParams{Applications: q.Except}))
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
	p := packed{rest: entry}
	d := store.Due{Shard: int(p.number()), NextTryTime: clock.Instant(p.number()), Rank: int(p.number()), ID: p.number()}
	d.Application = p.rest
	return d, p.err
}

// dueBulk returns the bulk of ListDue or a variant. part is the SELECT for a single shard; last is the last argument of that SELECT.
func dueBulk(db dbsqlc.DBTX, part part, q *store.DueQuery, applications []string, last int) bulk {
	return bulk{DBTX: db, part: part, rows: len(q.Shards), args: dueArgs(q, applications, last)}
}

// dueArgs returns the arguments of ListDue or a variant.
func dueArgs(q *store.DueQuery, applications []string, last int) []any {
	args := make([]any, 0, (12+len(applications))*len(q.Shards))
	from, until := int64(q.From.Time), int64(q.Until.Time)
	fromRank, untilRank := int64(q.From.Rank), int64(q.Until.Rank)
	for _, shard := range q.Shards {
		args = append(args, int64(shard), from, from, fromRank, fromRank, q.From.ID, until, until, untilRank, untilRank, q.Until.ID)
		for _, application := range applications {
			args = append(args, application)
		}
		args = append(args, int64(last))
	}
	return args
}

// Overdue counts the due alarms in the due index (CountDue), and finds the oldest (ListOldest).
func (s *Store) Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	o := store.Overdue{Oldest: clock.NoInstant}
	numbers := idsOf(shards, func(n *int) int64 { return int64(*n) })
	count, err := s.q.CountDue(ctx, s.upkeep, dbsqlc.CountDueParams{Shards: numbers, Now: int64(now), Limit: int32(limit)})
	if err != nil || count == 0 {
		return o, s.mapError("count overdue alarms", err)
	}
	b := bulk{DBTX: s.upkeep, part: oldestOfShard, rows: len(shards), args: oldestArgs(numbers, now)}
	oldest, err := s.q.ListOldest(ctx, b, dbsqlc.ListOldestParams{})
	if err != nil {
		return o, s.mapError("find the oldest overdue alarm", err)
	}
	for _, r := range oldest {
		if t := store.FromNull(r); o.Oldest == clock.NoInstant || t < o.Oldest {
			o.Oldest = t
		}
	}
	if o.Oldest != clock.NoInstant { // the counted alarms may have rung meanwhile
		o.Count = int(count)
	}
	return o, nil
}

// oldestArgs returns the arguments of ListOldest.
func oldestArgs(shards []int64, now clock.Instant) []any {
	args := make([]any, 0, 2*len(shards))
	for _, n := range shards {
		args = append(args, n, int64(now))
	}
	return args
}
