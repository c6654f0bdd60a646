package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// Due reads the due index of all the shards in one statement (ListDue).
func (s *Store) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.q.ListDue(ctx, s.upkeep, dbsqlc.ListDueParams{
		Shards: shardsOf(q.Shards), FromTime: int64(q.From.Time), FromRank: int64(q.From.Rank), FromID: q.From.ID,
		UntilTime: int64(q.Until.Time), UntilRank: int64(q.Until.Rank), UntilID: q.Until.ID, RowLimit: int32(q.Limit),
	})
	if err != nil {
		return store.DuePage{}, s.mapError("read what is due", err)
	}
	return store.NewDuePage(q, column(rows, dueOf)), nil
}

func dueOf(r *dbsqlc.ListDueRow) store.Due {
	return store.Due{
		ID: r.ID, NextTryTime: clock.Instant(r.NextTryTime), Rank: int(r.DueRank), Shard: int(r.Shard), Application: r.Application,
	}
}

// Overdue counts what is due, from the due index (CountDue).
func (s *Store) Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	row, err := s.q.CountDue(ctx, s.upkeep, dbsqlc.CountDueParams{Shards: shardsOf(shards), Now: int64(now), RowLimit: int32(limit)})
	if err != nil {
		return store.Overdue{}, s.mapError("count what is overdue", err)
	}
	return store.Overdue{Count: int(row.Count), Oldest: clock.Instant(row.Oldest)}, nil
}

// Expire ends due rows whose latest_ring_at has passed (ListDue, ExpireAlarms).
func (s *Store) Expire(
	ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int,
) ([]store.Ended, store.Position, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	until := store.Position{Time: now + 1}
	// each shard gives some more than its share: a page that is too short is only one call more
	page, err := s.Due(ctx, store.DueQuery{Shards: shards, From: from, Until: until, Limit: min(limit, 2*limit/len(shards)+1)})
	if err != nil {
		return nil, from, err
	}
	rows, next := page.Rows, page.Complete
	if len(rows) > limit {
		rows, next = rows[:limit], rows[limit].Position()
	}
	if next == until {
		next = store.Position{}
	}
	ended, err := s.expire(ctx, now, rows)
	if err != nil {
		return nil, from, err
	}
	return ended, next, nil
}

func (s *Store) expire(ctx context.Context, now clock.Instant, due []store.Due) ([]store.Ended, error) {
	if len(due) == 0 {
		return nil, nil
	}
	rows, err := s.q.ExpireAlarms(ctx, s.upkeep, dbsqlc.ExpireAlarmsParams{
		Ids: column(due, func(d *store.Due) int64 { return d.ID }), Now: int64(now), Reason: store.ExpiredReason(""),
	})
	if err != nil {
		return nil, s.mapError("expire", err)
	}
	return column(rows, func(r *dbsqlc.ExpireAlarmsRow) store.Ended {
		return store.Ended{
			Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, ID: r.ID, State: clock.Expired, Reason: r.LastError,
		}
	}), nil
}

// shardsOf returns shards as a column holds them.
func shardsOf(shards []int) []int64 { return column(shards, func(n *int) int64 { return int64(*n) }) }
