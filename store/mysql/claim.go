package mysql

import (
	"cmp"
	"context"
	"sort"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// inlineBytes is the longest payload that LockDue reads: of the others nobody knows yet whether they fit into the claim.
const inlineBytes = 4 << 10

// Claim takes alarms that are due: LockDue passes over what is locked and reads the rings, ListPayloads what is long of them;
// TakeAlarms, LeaseAlarms or TakeOnce decides.
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
	if h.tx, err = h.s.begin(ctx, h.s.rings); err != nil {
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
	rows, candidates, err := h.lock(ctx)
	if err != nil || len(candidates) == 0 {
		return err
	}
	if err := h.write(ctx, candidates); err != nil {
		return err
	}
	return h.ring(ctx, rows, candidates)
}

// lock locks what is to be rung, and nothing else when it returns. What is over is committed first, so that it is over
// whatever becomes of the rings; where something is left, all locks are given up and the others locked again. All of it is rare.
// The rows come in the order of their ids, the candidates in due order.
func (h *held) lock(ctx context.Context) ([]dueRow, []store.Candidate, error) {
	ids := h.IDs
	for {
		found, err := h.s.q.LockDue(ctx, h.tx, dbsqlc.LockDueParams{InlineBytes: inlineBytes, Ids: ids, Now: int64(h.Now)})
		if err != nil {
			return nil, nil, err
		}
		rows, candidates := make([]dueRow, len(found)), make([]store.Candidate, len(found))
		for i := range found {
			if rows[i], err = unpackDue(found[i]); err != nil {
				return nil, nil, err
			}
			candidates[i] = rows[i].Candidate
		}
		judged := h.Judge(candidates)
		switch {
		case len(judged.Ended) > 0:
			err = h.end(ctx, &judged)
		case len(judged.Left)+len(judged.Once) > 0:
			h.left, h.once = append(h.left, judged.Left...), append(h.once, judged.Once...)
			ids = idsOf(judged.Taken, idOfCandidate)
			err = h.tx.rollbackAndBegin(ctx)
		default:
			return rows, judged.Taken, nil
		}
		if err != nil {
			return nil, nil, err
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

// dueRow is a row of LockDue: the candidate, and what else its ring needs.
type dueRow struct {
	store.Candidate
	shard       int
	retryTimes  int
	priority    int
	ringAt      clock.Instant
	retryPolicy string
	traceparent string
	contentType string
	payloadKind clock.PayloadKind
	payload     []byte // nil where it is longer than inlineBytes
}

// unpackDue reads a row in the order of LockDue. The texts share its memory.
func unpackDue(row string) (r dueRow, err error) {
	p := packed{rest: row}
	r.ID = p.number()
	r.shard = int(p.number())
	r.State = clock.State(p.number())
	r.Generation = p.number()
	r.RingNo = int(p.number())
	r.retryTimes = int(p.number())
	r.MaxRings = int(p.number())
	r.AckTimeout = time.Duration(p.number()) * time.Millisecond
	r.Delivery = clock.DeliveryMode(p.number())
	r.priority = int(p.number())
	r.ringAt = clock.Instant(p.number())
	r.LatestRingAt = clock.Instant(p.number())
	r.NextTryTime = clock.Instant(p.number())
	r.InDoubt = p.number() != 0
	r.RungAt = clock.Instant(p.number())
	r.UpdateTime = clock.Instant(p.number())
	r.Application, r.BusinessID = p.text(), p.text()
	r.LastError = p.text()
	r.ClaimID = p.text()
	r.retryPolicy = p.text()
	r.traceparent = p.text()
	r.contentType = p.text()
	r.payloadKind = clock.PayloadKind(p.number())
	r.PayloadLength = int(p.number())
	if r.PayloadLength <= inlineBytes {
		r.payload = []byte(p.bytes(r.PayloadLength))
	}
	r.Rank = store.Rank(r.priority)
	return r, p.err
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

// write is the conditional UPDATE that decides the claim.
func (h *held) write(ctx context.Context, candidates []store.Candidate) error {
	q, now, ids := h.s.q, int64(h.Now), idsOf(candidates, idOfCandidate)
	var n int64
	var err error
	switch {
	case h.Once:
		n, err = q.TakeOnce(ctx, h.tx, dbsqlc.TakeOnceParams{ClaimID: h.ClaimID, Now: now, Ids: ids})
	case h.Lease > 0:
		n, err = q.LeaseAlarms(ctx, h.tx, dbsqlc.LeaseAlarmsParams{ClaimEnd: int64(h.LeaseEnd()), Now: now, Ids: ids})
	default:
		n, err = q.TakeAlarms(ctx, h.tx, dbsqlc.TakeAlarmsParams{Now: now, ClaimID: h.ClaimID, Ids: ids})
	}
	if err == nil && int(n) != len(ids) {
		err = store.ErrReplay // somebody changed them although they are locked: an engine that ignores SKIP LOCKED
	}
	return err
}

// ring makes the rings of the candidates.
func (h *held) ring(ctx context.Context, rows []dueRow, candidates []store.Candidate) error {
	long, err := h.longPayloads(ctx, candidates)
	if err != nil {
		return err
	}
	h.rings, h.before = make([]clock.Ring, len(candidates)), candidates
	for i := range candidates {
		c := &candidates[i]
		at, _ := sort.Find(len(rows), func(n int) int { return cmp.Compare(c.ID, rows[n].ID) })
		if h.rings[i], err = h.ringOf(&rows[at]); err != nil {
			return err
		}
		if c.PayloadLength > inlineBytes {
			h.rings[i].Payload = long[c.ID]
		}
	}
	return nil
}

// longPayloads reads the payloads that LockDue left out.
func (h *held) longPayloads(ctx context.Context, candidates []store.Candidate) (map[int64][]byte, error) {
	var ids []int64
	for i := range candidates {
		if candidates[i].PayloadLength > inlineBytes {
			ids = append(ids, candidates[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := h.s.q.ListPayloads(ctx, h.tx, ids)
	if err != nil {
		return nil, err
	}
	payloads := make(map[int64][]byte, len(rows))
	for i := range rows {
		payloads[rows[i].ID] = rows[i].Payload
	}
	return payloads, nil
}

// ringOf returns the ring of a row, with its payload where LockDue read it. The error is a retry policy that cannot be read.
func (h *held) ringOf(row *dueRow) (clock.Ring, error) {
	retry, err := clock.DecodeRetryPolicy(row.retryPolicy)
	return clock.Ring{
		AlarmID: row.ID, Key: row.Key, Shard: row.shard, Generation: row.Generation, RingNo: row.RingNo + 1, RetryTimes: row.retryTimes,
		RingAt: row.ringAt, LatestRingAt: row.LatestRingAt, RungAt: h.Now, ClaimID: h.ClaimID, Payload: row.payload,
		PayloadKind: row.payloadKind, ContentType: row.contentType, Retry: retry, AckTimeout: row.AckTimeout, MaxRings: row.MaxRings,
		Priority: row.priority, Delivery: row.Delivery, Traceparent: row.traceparent, InDoubt: row.InDoubt || row.Claimed(),
	}, err
}

func idOfCandidate(c *store.Candidate) int64 { return c.ID }
