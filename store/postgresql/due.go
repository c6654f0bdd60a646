package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// Due reads the due index of all shards in one statement (ListDue). With application names it takes two: the first finds the end of the page
// (ListDueEnd), the second reads it (ListDueOnly, ListDueExcept).
func (s *Store) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.due(ctx, &q)
	if err != nil {
		return store.DuePage{}, s.mapError("read due alarms", err)
	}
	return store.NewDuePage(q, rows), nil
}

// due reads the alarms that q asks for. A read with application names moves q.Until forward.
func (s *Store) due(ctx context.Context, q *store.DueQuery) ([]store.Due, error) {
	arg := dbsqlc.ListDueParams{
		Shards: shardsOf(q.Shards), FromTime: int64(q.From.Time), FromRank: int64(q.From.Rank), FromID: q.From.ID,
		UntilTime: int64(q.Until.Time), UntilRank: int64(q.Until.Rank), UntilID: q.Until.ID, RowLimit: int32(q.Limit),
	}
	if !q.Filtered() {
		rows, err := s.q.ListDue(ctx, s.upkeep, arg)
		return column(rows, dueOf), err
	}
	ends, err := s.q.ListDueEnd(ctx, s.upkeep, dbsqlc.ListDueEndParams{
		Shards: arg.Shards, FromTime: arg.FromTime, FromRank: arg.FromRank, FromID: arg.FromID,
		UntilTime: arg.UntilTime, UntilRank: arg.UntilRank, UntilID: arg.UntilID, Entries: int32(q.ScanLimit),
	})
	if err != nil {
		return nil, err
	}
	q.EndBefore(column(ends, func(r *dbsqlc.ListDueEndRow) store.Due { return dueOf((*dbsqlc.ListDueRow)(r)) }))
	return s.dueByApplication(ctx, q, &arg)
}

// dueByApplication reads the alarms of a query with application names. arg holds the other parameters; the end comes from q.
func (s *Store) dueByApplication(ctx context.Context, q *store.DueQuery, arg *dbsqlc.ListDueParams) ([]store.Due, error) {
	named := dbsqlc.ListDueOnlyParams{
		Shards: arg.Shards, FromTime: arg.FromTime, FromRank: arg.FromRank, FromID: arg.FromID,
		UntilTime: int64(q.Until.Time), UntilRank: int64(q.Until.Rank), UntilID: q.Until.ID, RowLimit: arg.RowLimit, Applications: q.Only,
	}
	if len(q.Only) > 0 {
		rows, err := s.q.ListDueOnly(ctx, s.upkeep, named)
		return column(rows, func(r *dbsqlc.ListDueOnlyRow) store.Due { return dueOf((*dbsqlc.ListDueRow)(r)) }), err
	}
	named.Applications = q.Except
	rows, err := s.q.ListDueExcept(ctx, s.upkeep, dbsqlc.ListDueExceptParams(named))
	return column(rows, func(r *dbsqlc.ListDueExceptRow) store.Due { return dueOf((*dbsqlc.ListDueRow)(r)) }), err
}

func dueOf(r *dbsqlc.ListDueRow) store.Due {
	return store.Due{
		ID: r.ID, NextTryTime: clock.Instant(r.NextTryTime), Rank: int(r.DueRank), Shard: int(r.Shard), Application: r.Application,
	}
}

// Overdue counts the due alarms in the due index (CountDue).
func (s *Store) Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	row, err := s.q.CountDue(ctx, s.upkeep, dbsqlc.CountDueParams{Shards: shardsOf(shards), Now: int64(now), RowLimit: int32(limit)})
	if err != nil {
		return store.Overdue{}, s.mapError("count overdue alarms", err)
	}
	return store.Overdue{Count: int(row.Count), Oldest: clock.Instant(row.Oldest)}, nil
}

// Expire ends due rows whose latest_ring_at has passed (ListDue, ExpireAlarms).
func (s *Store) Expire(
	ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int,
) ([]store.EndedAlarm, store.Position, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	until := store.Position{Time: now + 1}
	// each shard may give twice its share of the limit; a page that is too short costs only one more call
	page, err := s.Due(ctx, store.DueQuery{Shards: shards, From: from, Until: until, Limit: min(limit, 2*limit/len(shards)+1)})
	if err != nil {
		return nil, from, err
	}
	rows, next := page.Rows, page.CompleteUntil
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

func (s *Store) expire(ctx context.Context, now clock.Instant, due []store.Due) ([]store.EndedAlarm, error) {
	if len(due) == 0 {
		return nil, nil
	}
	rows, err := s.q.ExpireAlarms(ctx, s.upkeep, dbsqlc.ExpireAlarmsParams{
		Ids: column(due, func(d *store.Due) int64 { return d.ID }), Now: int64(now), Build: store.BuildLevel(),
		Doubt: clock.ReasonInDoubt, Unacknowledged: clock.ReasonUnacknowledged, Reason: clock.ReasonExpired,
	})
	if err != nil {
		return nil, s.mapError("expire", err)
	}
	return column(rows, func(r *dbsqlc.ExpireAlarmsRow) store.EndedAlarm {
		return store.EndedAlarm{
			Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, ID: r.ID, State: clock.Expired, Reason: r.LastError,
		}
	}), nil
}

// shardsOf converts shards to the type of their column.
func shardsOf(shards []int) []int64 { return column(shards, func(n *int) int64 { return int64(*n) }) }
