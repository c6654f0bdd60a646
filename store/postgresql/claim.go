package postgresql

import (
	"context"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// Claim takes what is free and due of the ids: LockDue to avoid waiting and to judge, then the conditional TakeAlarms (or
// LeaseAlarms), which decides.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	t, err := begin(ctx, s.rings, 0)
	if err != nil {
		return nil, s.mapError("claim", err)
	}
	c := &claim{s: s, t: t, request: r}
	claimed, err := c.take(ctx)
	if err == nil && (len(c.rings) == 0 || r.Lease > 0) {
		err = t.commit(ctx)
	}
	if err != nil {
		t.close(ctx)
		return nil, s.mapError("claim", err)
	}
	if len(c.rings) == 0 || r.Lease > 0 {
		t.close(ctx)
		c.t = nil
	}
	if len(c.rings) > 0 {
		claimed.Settler = c
	}
	return claimed, nil
}

// claim is a store.Settler: what was taken, what it was before and what the claim made of it.
type claim struct {
	s       *Store
	t       *tx // open, with the locks; nil of a two-phase claim
	request store.ClaimRequest
	rings   []clock.Ring
	before  []store.Candidate // in the order of rings
	held    []held            // in the order of rings
}

var _ store.Settler = (*claim)(nil)

// held is how a claim left a row: what it must still be when it is settled.
type held struct {
	state       clock.State
	nextTryTime clock.Instant
	rungAt      clock.Instant
}

// take locks, judges and writes.
func (c *claim) take(ctx context.Context) (*store.Claim, error) {
	taken, ended, left, err := c.judge(ctx)
	if err != nil {
		return nil, err
	}
	if len(taken) > 0 {
		rows, err := c.write(ctx, idsOfCandidates(taken))
		if err != nil {
			return nil, fmt.Errorf("take: %w", err)
		}
		if err := c.collect(taken, rows); err != nil {
			return nil, err
		}
	}
	return &store.Claim{Rings: c.rings, Ended: ended, Left: left}, nil
}

// judge locks what is to be taken and nothing else. Where rows are to be ended, that is committed first, so that they are over
// whatever becomes of the rings; where rows are left for their size, all locks are given up and the others locked again. Both
// happen seldom.
func (c *claim) judge(ctx context.Context) (taken []store.Candidate, ended []store.Ended, left []int64, err error) {
	ids := c.request.IDs
	for {
		locked, err := c.s.q.LockDue(ctx, c.t, dbsqlc.LockDueParams{Ids: ids, Now: int64(c.request.Now)})
		if err != nil {
			return nil, nil, nil, fmt.Errorf("lock: %w", err)
		}
		judged := c.request.Judge(column(locked, candidateOf))
		switch {
		case len(judged.Ended) > 0:
			err = c.end(ctx, judged.Ended)
			ended = append(ended, judged.Ended...)
		case len(judged.Left) > 0:
			err = c.t.rollback(ctx)
			left = append(left, judged.Left...)
			ids = idsOfCandidates(judged.Taken)
		default:
			return judged.Taken, ended, left, nil
		}
		if err != nil {
			return nil, nil, nil, err
		}
	}
}

// end writes and commits, in one round trip; the next statement begins anew.
func (c *claim) end(ctx context.Context, ended []store.Ended) error {
	var p pipeline
	err := c.s.q.EndAlarms(ctx, &p, dbsqlc.EndAlarmsParams{
		Now:     int64(c.request.Now),
		Ids:     column(ended, func(e *store.Ended) int64 { return e.ID }),
		States:  column(ended, func(e *store.Ended) int64 { return int64(e.State) }),
		Reasons: column(ended, func(e *store.Ended) string { return textOf(e.Reason) }),
	})
	if err != nil {
		return err
	}
	return c.t.send(ctx, &p)
}

func idsOfCandidates(rows []store.Candidate) []int64 {
	return column(rows, func(c *store.Candidate) int64 { return c.ID })
}

// write is the conditional UPDATE that decides the claim.
func (c *claim) write(ctx context.Context, ids []int64) ([]dbsqlc.Alarm, error) {
	now := c.request.Now
	if c.request.Lease > 0 {
		return c.s.q.LeaseAlarms(ctx, c.t, dbsqlc.LeaseAlarmsParams{
			ClaimEnd: int64(now.Add(c.request.Lease)), Now: int64(now), Ids: ids,
		})
	}
	return c.s.q.TakeAlarms(ctx, c.t, dbsqlc.TakeAlarmsParams{Now: int64(now), ClaimID: c.request.ClaimID, Ids: ids})
}

// collect makes the rings of the rows that were written, in the order in which they were judged.
func (c *claim) collect(taken []store.Candidate, rows []dbsqlc.Alarm) error {
	byID := make(map[int64]*dbsqlc.Alarm, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	for _, before := range taken {
		row := byID[before.ID]
		if row == nil {
			continue // it changed between the statements, on a server that does not lock
		}
		a, err := alarmOf(*row)
		if err != nil {
			return err
		}
		c.rings = append(c.rings, ringOf(&a, &before, &c.request))
		c.before = append(c.before, before)
		c.held = append(c.held, held{state: a.State, nextTryTime: a.NextTryTime, rungAt: a.RungAt})
	}
	return nil
}

// Settle writes what did not come out as claimed (of a two-phase claim, everything) and commits, in one round trip.
func (c *claim) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	if len(fates) != len(c.rings) {
		panic(fmt.Sprintf("postgresql: %d fates of %d rings", len(fates), len(c.rings)))
	}
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	var corrections []correction
	for i := range fates {
		if c.t == nil || fates[i].Outcome.Kind != clock.Confirmed {
			corrections = append(corrections, c.correction(i, now, &fates[i]))
		}
	}
	return c.s.mapError("settle", c.correct(ctx, now, corrections))
}

// Release rolls back; a two-phase claim's rows are written as they were.
func (c *claim) Release(ctx context.Context) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	if c.t != nil {
		err := c.t.rollback(ctx)
		c.t.close(ctx)
		return c.s.mapError("release", err)
	}
	corrections := make([]correction, len(c.rings))
	for i := range corrections {
		corrections[i] = c.undo(i)
	}
	return c.s.mapError("release", c.correct(ctx, c.request.Now, corrections))
}

// correction is what is written to a row in place of what the claim wrote, with the outcome of the attempt to be kept (0:
// none).
type correction struct {
	store.Settlement
	held       held
	updateTime clock.Instant
	attempt    clock.OutcomeKind
}

func (c *claim) correction(i int, now clock.Instant, f *clock.Fate) correction {
	k := correction{Settlement: store.Settled(&c.rings[i], &c.before[i], f), held: c.held[i], updateTime: now}
	if !store.Silent(f.Outcome.Kind) {
		k.attempt = f.Outcome.Kind
	}
	return k
}

// undo returns the row as it was before the claim.
func (c *claim) undo(i int) correction {
	b := &c.before[i]
	return correction{held: c.held[i], updateTime: b.UpdateTime, Settlement: store.Settlement{
		ID: b.ID, Generation: c.rings[i].Generation, State: b.State, NextTryTime: b.NextTryTime, RingNo: b.RingNo,
		RetryTimes: c.rings[i].RetryTimes, InDoubt: b.InDoubt, ClaimID: b.ClaimID, RungAt: b.RungAt, FinishedAt: clock.NoInstant,
	}}
}

// correct writes the corrections and commits; afterwards the claim is over.
func (c *claim) correct(ctx context.Context, now clock.Instant, corrections []correction) error {
	if c.t == nil {
		return store.Replay(ctx, rolledBack, func() error { return c.correctAnew(ctx, now, corrections) })
	}
	defer c.t.close(ctx)
	if len(corrections) == 0 {
		return c.t.commit(ctx)
	}
	var p pipeline
	if err := c.writeCorrections(ctx, &p, now, corrections); err != nil {
		return err
	}
	return c.t.send(ctx, &p)
}

// correctAnew writes the corrections in a transaction of its own.
func (c *claim) correctAnew(ctx context.Context, now clock.Instant, corrections []correction) error {
	t, err := begin(ctx, c.s.rings, 0)
	if err != nil {
		return err
	}
	defer t.close(ctx)
	if err := c.writeCorrections(ctx, t, now, corrections); err != nil {
		return err
	}
	return t.commit(ctx)
}

func (c *claim) writeCorrections(ctx context.Context, db dbsqlc.DBTX, now clock.Instant, corrections []correction) error {
	if err := c.s.q.SettleAlarms(ctx, db, settleParams(corrections, c.request.ClaimID, now)); err != nil {
		return err
	}
	tried := attempted(corrections)
	if len(tried) == 0 {
		return nil
	}
	return c.s.q.PruneAttempts(ctx, db, dbsqlc.PruneAttemptsParams{AlarmIds: tried, Kept: clock.MaxAttempts})
}

// attempted returns the ids of the alarms that get an attempt.
func attempted(corrections []correction) []int64 {
	var ids []int64
	for i := range corrections {
		if corrections[i].attempt != 0 {
			ids = append(ids, corrections[i].ID)
		}
	}
	return ids
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

// ringOf returns the ring of a row that was taken.
func ringOf(a *clock.Alarm, before *store.Candidate, r *store.ClaimRequest) clock.Ring {
	return clock.Ring{
		AlarmID: a.ID, Key: a.Key, Shard: a.Shard, Generation: a.Generation, RingNo: before.RingNo + 1, RetryTimes: a.RetryTimes,
		RingAt: a.RingAt, LatestRingAt: a.LatestRingAt, RungAt: r.Now, ClaimID: r.ClaimID, Payload: a.Payload,
		PayloadKind: a.PayloadKind, ContentType: a.ContentType, Retry: a.Retry, AckTimeout: a.AckTimeout, MaxRings: a.MaxRings,
		Priority: a.Priority, Traceparent: a.Traceparent, InDoubt: before.InDoubt || before.Claimed(),
	}
}
