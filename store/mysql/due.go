package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// Due reads the due index of all the shards in one statement (ListDue).
func (s *Store) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	b := bulk{DBTX: s.upkeep, part: dueOfShard, rows: len(q.Shards), args: dueArgs(q)}
	found, err := s.q.ListDue(ctx, b, dbsqlc.ListDueParams{})
	if err != nil {
		return store.DuePage{}, s.mapError("read what is due", err)
	}
	rows := make([]store.Due, len(found))
	for i := range found {
		if rows[i], err = unpackEntry(found[i]); err != nil {
			return store.DuePage{}, s.mapError("read what is due", err)
		}
	}
	return store.NewDuePage(q, rows), nil
}

// unpackEntry reads an entry in the order of ListDue.
func unpackEntry(entry string) (store.Due, error) {
	p := packed{rest: entry}
	d := store.Due{Shard: int(p.number()), NextTryTime: clock.Instant(p.number()), Rank: int(p.number()), ID: p.number()}
	d.Application = p.rest
	return d, p.err
}

// dueArgs returns the arguments of ListDue.
func dueArgs(q store.DueQuery) []any {
	args := make([]any, 0, 12*len(q.Shards))
	from, until := int64(q.From.Time), int64(q.Until.Time)
	fromRank, untilRank := int64(q.From.Rank), int64(q.Until.Rank)
	for _, shard := range q.Shards {
		args = append(args, int64(shard), from, from, fromRank, fromRank, q.From.ID, until, until, untilRank, untilRank, q.Until.ID, int64(q.Limit))
	}
	return args
}

// Overdue counts what is due, from the due index (CountDue, ListOldest).
func (s *Store) Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	o := store.Overdue{Oldest: clock.NoInstant}
	numbers := idsOf(shards, func(n *int) int64 { return int64(*n) })
	count, err := s.q.CountDue(ctx, s.upkeep, dbsqlc.CountDueParams{Shards: numbers, Now: int64(now), Limit: int32(limit)})
	if err != nil || count == 0 {
		return o, s.mapError("count what is overdue", err)
	}
	b := bulk{DBTX: s.upkeep, part: oldestOf, rows: len(shards), args: oldestArgs(numbers, now)}
	oldest, err := s.q.ListOldest(ctx, b, dbsqlc.ListOldestParams{})
	if err != nil {
		return o, s.mapError("look for the oldest that is overdue", err)
	}
	for _, r := range oldest {
		if t := store.FromNull(r); o.Oldest == clock.NoInstant || t < o.Oldest {
			o.Oldest = t
		}
	}
	if o.Oldest != clock.NoInstant { // it may have rung since it was counted
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
