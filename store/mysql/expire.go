package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// Expire ends due rows whose latest_ring_at has passed (ListDue, LockExpired, ExpireAlarms).
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

func (s *Store) expire(ctx context.Context, now clock.Instant, due []store.Due) (ended []store.EndedAlarm, err error) {
	if len(due) == 0 {
		return nil, nil
	}
	ids := idsOf(due, func(d *store.Due) int64 { return d.ID })
	err = s.transact(ctx, s.upkeep, "expire", func(t *tx, _ bool) error {
		rows, err := s.q.LockExpired(ctx, t, dbsqlc.LockExpiredParams{Ids: ids, Now: int64(now), Build: store.BuildLevel()})
		if err != nil {
			return err
		}
		ended = make([]store.EndedAlarm, len(rows))
		for i, r := range rows {
			ring := clock.Ring{Before: clock.RingRow{
				State: clock.State(r.State), InDoubt: r.InDoubt != 0, RungAt: store.FromNull(r.RungAt), LastError: r.LastError,
			}}
			fate := clock.FateOf(&ring, clock.Outcome{Kind: clock.TooLate}, now)
			ended[i] = store.EndedAlarm{
				Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, ID: r.ID, State: fate.State, Reason: fate.LastError,
			}
		}
		n, err := s.expireAlarms(ctx, t, now, idsOf(rows, func(r *dbsqlc.LockExpiredRow) int64 { return r.ID }))
		if err == nil && int(n) != len(rows) {
			return store.ErrReplay // another transaction changed locked rows: the server ignores SKIP LOCKED
		}
		return err
	})
	return ended, err
}
