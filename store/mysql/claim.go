package mysql

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// Claim takes alarms that are due: LockDue passes over what is locked, TakeAlarms or LeaseAlarms decides, ListTaken or
// ListLeased tells what was taken.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var c *store.Claim
	err := store.Replay(ctx, rolledBack, func() (err error) {
		c, err = s.claim(ctx, r)
		return err
	})
	if err != nil {
		return nil, mapError("claim", err)
	}
	return c, nil
}

func (s *Store) claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	t, err := begin(ctx, s.rings)
	if err != nil {
		return nil, err
	}
	h := &held{s: s, ClaimRequest: r}
	c, err := h.take(ctx, t)
	if err != nil {
		t.rollback(ctx)
		return nil, err
	}
	if len(c.Rings) > 0 && r.Lease == 0 {
		h.tx, c.Settler = t, h
		return c, nil
	}
	if err := t.commit(ctx); err != nil {
		return nil, err
	}
	if len(c.Rings) > 0 {
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
}

// take does all of a claim but its end.
func (h *held) take(ctx context.Context, t *tx) (*store.Claim, error) {
	rows, err := h.s.q.LockDue(ctx, t, dbsqlc.LockDueParams{Ids: h.IDs, Now: int64(h.Now)})
	if err != nil {
		return nil, err
	}
	candidates := make([]store.Candidate, len(rows))
	for i := range rows {
		candidates[i] = candidateOf(&rows[i])
	}
	judged := h.Judge(candidates)
	if err := h.s.end(ctx, t, h.Now, judged.Ended); err != nil {
		return nil, err
	}
	if len(judged.Taken) > 0 {
		if err := h.ring(ctx, t, judged.Taken); err != nil {
			return nil, err
		}
	}
	return &store.Claim{Rings: h.rings, Ended: judged.Ended, Left: judged.Left}, nil
}

func candidateOf(r *dbsqlc.LockDueRow) store.Candidate {
	return store.Candidate{
		ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, State: clock.State(r.State),
		RingNo: int(r.RingNo), MaxRings: int(r.MaxRings), AckTimeout: time.Duration(r.AckTimeout) * time.Millisecond,
		LatestRingAt: store.FromNull(r.LatestRingAt), NextTryTime: store.FromNull(r.NextTryTime), LastError: r.LastError,
		InDoubt: r.InDoubt != 0, ClaimID: r.ClaimID, RungAt: store.FromNull(r.RungAt), UpdateTime: clock.Instant(r.UpdateTime),
		PayloadLength: int(r.PayloadLength),
	}
}

// end writes what ended without a ring (ExpireAlarms, KillAlarms).
func (s *Store) end(ctx context.Context, t *tx, now clock.Instant, ended []store.Ended) error {
	var expired, dead []int64
	for _, e := range ended {
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
	if err == nil && int(n+m) != len(ended) {
		return store.ErrReplay // somebody changed them although they are locked: an engine that ignores SKIP LOCKED
	}
	return err
}

// ring takes the candidates and reads what was taken, in their order.
func (h *held) ring(ctx context.Context, t *tx, candidates []store.Candidate) error {
	ids := idsOf(candidates, func(c *store.Candidate) int64 { return c.ID })
	rows, err := h.write(ctx, t, ids)
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

func (h *held) write(ctx context.Context, t *tx, ids []int64) ([]dbsqlc.Alarm, error) {
	q, now := h.s.q, int64(h.Now)
	if h.Lease == 0 {
		if _, err := q.TakeAlarms(ctx, t, dbsqlc.TakeAlarmsParams{Now: now, ClaimID: h.ClaimID, Ids: ids}); err != nil {
			return nil, err
		}
		return q.ListTaken(ctx, t, dbsqlc.ListTakenParams{Ids: ids, ClaimID: h.ClaimID})
	}
	end := int64(h.end())
	if _, err := q.LeaseAlarms(ctx, t, dbsqlc.LeaseAlarmsParams{ClaimEnd: end, Now: now, Ids: ids}); err != nil {
		return nil, err
	}
	return q.ListLeased(ctx, t, dbsqlc.ListLeasedParams{Ids: ids, ClaimEnd: end})
}

// end returns when a two-phase claim ends.
func (h *held) end() clock.Instant { return h.Now.Add(h.Lease) }

// ringOf returns the ring of an alarm that was taken.
func (h *held) ringOf(a *clock.Alarm, before *store.Candidate) clock.Ring {
	return clock.Ring{
		AlarmID: a.ID, Key: a.Key, Shard: a.Shard, Generation: a.Generation, RingNo: before.RingNo + 1, RetryTimes: a.RetryTimes,
		RingAt: a.RingAt, LatestRingAt: a.LatestRingAt, RungAt: h.Now, ClaimID: h.ClaimID, Payload: a.Payload,
		PayloadKind: a.PayloadKind, ContentType: a.ContentType, Retry: a.Retry, AckTimeout: a.AckTimeout, MaxRings: a.MaxRings,
		Priority: a.Priority, Traceparent: a.Traceparent, InDoubt: before.InDoubt || before.Claimed(),
	}
}
