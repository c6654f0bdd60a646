package mysql

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// Claim takes alarms that are due: LockDue passes over what is locked, TakeAlarms, LeaseAlarms or TakeOnce decides, ListTaken
// or ListLeased tells what was taken.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	h := &held{s: s, ClaimRequest: r}
	err := s.metrics.Replay(ctx, replayReason, func() error { return h.claim(ctx) })
	if err != nil {
		return nil, s.mapError("claim", err)
	}
	c := &store.Claim{Rings: h.rings, Ended: h.ended, Left: h.left, Once: h.once}
	if len(h.rings) > 0 {
		c.Settler = h
	}
	return c, nil
}

// held is what a claim holds until it is settled.
type held struct {
	store.ClaimRequest
	s      *Store
	tx     *tx // nil: two-phase
	rings  []clock.Ring
	before []store.Candidate // of rings
	ended  []store.Ended
	left   []int64
	once   []int64
}

// claim does all of it in a transaction, which stays open where the claim is to hold it.
func (h *held) claim(ctx context.Context) (err error) {
	h.rings, h.before, h.left, h.once = nil, nil, nil, nil
	if h.tx, err = begin(ctx, h.s.rings); err != nil {
		return err
	}
	if err := h.take(ctx); err != nil {
		h.tx.rollback(ctx)
		return err
	}
	if len(h.rings) > 0 && h.Lease == 0 && !h.Once {
		return nil
	}
	t := h.tx
	h.tx = nil
	return t.commit(ctx)
}

// take does what is in the transaction.
func (h *held) take(ctx context.Context) error {
	candidates, err := h.lock(ctx)
	if err != nil || len(candidates) == 0 {
		return err
	}
	return h.ring(ctx, candidates)
}

// lock locks what is to be rung, and nothing else when it returns. What is over is committed first, so that it is over
// whatever becomes of the rings; where something is left, all locks are given up and the others locked again. All of it is rare.
func (h *held) lock(ctx context.Context) ([]store.Candidate, error) {
	ids := h.IDs
	for {
		rows, err := h.s.q.LockDue(ctx, h.tx, dbsqlc.LockDueParams{Ids: ids, Now: int64(h.Now)})
		if err != nil {
			return nil, err
		}
		candidates := make([]store.Candidate, len(rows))
		for i := range rows {
			candidates[i] = candidateOf(&rows[i])
		}
		judged := h.Judge(candidates)
		switch {
		case len(judged.Ended) > 0:
			err = h.end(ctx, &judged)
		case len(judged.Left)+len(judged.Once) > 0:
			h.left, h.once = append(h.left, judged.Left...), append(h.once, judged.Once...)
			ids = idsOf(judged.Taken, func(c *store.Candidate) int64 { return c.ID })
			err = h.tx.rollbackAndBegin(ctx)
		default:
			return judged.Taken, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// end writes what ended without a ring and commits.
func (h *held) end(ctx context.Context, judged *store.Judged) error {
	if err := h.s.end(ctx, h.tx, h.Now, judged); err != nil {
		return err
	}
	if err := h.tx.commitAndBegin(ctx); err != nil {
		return err
	}
	h.ended = append(h.ended, judged.Ended...)
	return nil
}

func candidateOf(r *dbsqlc.LockDueRow) store.Candidate {
	return store.Candidate{
		ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, State: clock.State(r.State),
		Generation: r.Generation, RingNo: int(r.RingNo), MaxRings: int(r.MaxRings), AckTimeout: time.Duration(r.AckTimeout) * time.Millisecond,
		Delivery: clock.DeliveryMode(r.Delivery), LatestRingAt: store.FromNull(r.LatestRingAt), NextTryTime: store.FromNull(r.NextTryTime),
		Rank: int(r.DueRank), LastError: r.LastError,
		InDoubt: r.InDoubt != 0, ClaimID: r.ClaimID, RungAt: store.FromNull(r.RungAt), UpdateTime: clock.Instant(r.UpdateTime),
		PayloadLength: int(r.PayloadLength),
	}
}

// end writes what ended without a ring (ExpireAlarms, KillAlarms), with its attempts.
func (s *Store) end(ctx context.Context, t *tx, now clock.Instant, judged *store.Judged) error {
	var expired, dead []int64
	for _, e := range judged.Ended {
		if e.State == clock.Expired {
			expired = append(expired, e.ID)
		} else {
			dead = append(dead, e.ID)
		}
	}
	var n, m int64
	var err error
	if len(expired) > 0 {
		n, err = s.q.ExpireAlarms(ctx, t, dbsqlc.ExpireAlarmsParams{Reason: store.ExpiredReason(""), Now: int64(now), Ids: expired})
	}
	if err == nil && len(dead) > 0 {
		m, err = s.q.KillAlarms(ctx, t, dbsqlc.KillAlarmsParams{Now: int64(now), Ids: dead})
	}
	if err == nil && int(n+m) != len(judged.Ended) {
		return store.ErrReplay // somebody changed them although they are locked: an engine that ignores SKIP LOCKED
	}
	if err != nil || len(judged.Attempts) == 0 {
		return err
	}
	return s.addAttempts(ctx, t, judged.Attempts)
}

// ring takes the candidates and reads what was taken, in their order.
func (h *held) ring(ctx context.Context, candidates []store.Candidate) error {
	ids := idsOf(candidates, func(c *store.Candidate) int64 { return c.ID })
	rows, err := h.write(ctx, ids)
	if err != nil {
		return err
	}
	alarms, err := alarmsOf(rows)
	if err != nil {
		return err
	}
	taken := make(map[int64]*clock.Alarm, len(alarms))
	for i := range alarms {
		taken[alarms[i].ID] = &alarms[i]
	}
	for i := range candidates {
		if a := taken[candidates[i].ID]; a != nil {
			h.rings = append(h.rings, h.ringOf(a, &candidates[i]))
			h.before = append(h.before, candidates[i])
		}
	}
	return nil
}

func (h *held) write(ctx context.Context, ids []int64) ([]dbsqlc.Alarm, error) {
	q, now := h.s.q, int64(h.Now)
	if h.Once {
		if _, err := q.TakeOnce(ctx, h.tx, dbsqlc.TakeOnceParams{ClaimID: h.ClaimID, Now: now, Ids: ids}); err != nil {
			return nil, err
		}
		return q.ListTaken(ctx, h.tx, dbsqlc.ListTakenParams{Ids: ids, ClaimID: h.ClaimID})
	}
	if h.Lease == 0 {
		if _, err := q.TakeAlarms(ctx, h.tx, dbsqlc.TakeAlarmsParams{Now: now, ClaimID: h.ClaimID, Ids: ids}); err != nil {
			return nil, err
		}
		return q.ListTaken(ctx, h.tx, dbsqlc.ListTakenParams{Ids: ids, ClaimID: h.ClaimID})
	}
	end := int64(h.claimEnd())
	if _, err := q.LeaseAlarms(ctx, h.tx, dbsqlc.LeaseAlarmsParams{ClaimEnd: end, Now: now, Ids: ids}); err != nil {
		return nil, err
	}
	return q.ListLeased(ctx, h.tx, dbsqlc.ListLeasedParams{Ids: ids, ClaimEnd: end})
}

// claimEnd returns when a two-phase claim ends.
func (h *held) claimEnd() clock.Instant { return h.Now.Add(h.Lease) }

// ringOf returns the ring of an alarm that was taken.
func (h *held) ringOf(a *clock.Alarm, before *store.Candidate) clock.Ring {
	return clock.Ring{
		AlarmID: a.ID, Key: a.Key, Shard: a.Shard, Generation: a.Generation, RingNo: before.RingNo + 1, RetryTimes: a.RetryTimes,
		RingAt: a.RingAt, LatestRingAt: a.LatestRingAt, RungAt: h.Now, ClaimID: h.ClaimID, Payload: a.Payload,
		PayloadKind: a.PayloadKind, ContentType: a.ContentType, Retry: a.Retry, AckTimeout: a.AckTimeout, MaxRings: a.MaxRings,
		Priority: a.Priority, Delivery: a.Delivery, Traceparent: a.Traceparent, InDoubt: before.InDoubt || before.Claimed(),
	}
}
