package postgresql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// Claim takes what is free and due of the ids. What is as it was set is taken at once (TakeFresh, LeaseFresh); of the rest LockDue
// avoids waiting and tells what to judge, then the conditional TakeAlarms (LeaseAlarms, TakeOnce) decides.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	t, err := begin(ctx, s.rings, 0)
	if err != nil {
		return nil, s.mapError("claim", err)
	}
	c := &claim{s: s, t: t, request: r}
	claimed, err := c.take(ctx)
	if err == nil && !c.holds() {
		err = t.commit(ctx)
	}
	if err != nil {
		t.close(ctx)
		return nil, s.mapError("claim", err)
	}
	if !c.holds() {
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
	fresh   []dbsqlc.TakeFreshRow // taken as they were set, in the open transaction
	rings   []clock.Ring
	before  []store.Candidate // in the order of rings
	held    []store.Left      // in the order of rings
}

var _ store.Settler = (*claim)(nil)

// holds reports whether the claim is to keep its transaction.
func (c *claim) holds() bool { return len(c.rings) > 0 && c.request.Lease == 0 && !c.request.Once }

// take takes what is fresh, and locks, judges and writes the rest.
func (c *claim) take(ctx context.Context) (*store.Claim, error) {
	if err := c.takeFresh(ctx); err != nil {
		return nil, fmt.Errorf("take: %w", err)
	}
	judged, err := c.judge(ctx)
	if err != nil {
		return nil, err
	}
	taken := judged.Taken
	var written []dbsqlc.Alarm
	if len(taken) > 0 {
		if written, err = c.write(ctx, idsOfCandidates(taken)); err != nil {
			return nil, fmt.Errorf("take: %w", err)
		}
	}
	taken = append(taken, column(c.fresh, freshCandidate)...)
	slices.SortFunc(taken, func(a, b store.Candidate) int { return a.Position().Compare(b.Position()) })
	if err := c.collect(taken, written); err != nil {
		return nil, err
	}
	return &store.Claim{Rings: c.rings, Ended: judged.Ended, Left: judged.Left, Once: judged.Once}, nil
}

// takeFresh takes the rows that are as they were set and that nobody holds, none with more than its part of MaxBytes. One that
// somebody takes in just this instant is waited for, for ringLockWait at most: then there are none.
func (c *claim) takeFresh(ctx context.Context) (err error) {
	r := &c.request
	if r.Once || len(r.IDs) == 0 {
		return nil
	}
	maxPayload := int64(r.MaxBytes / len(r.IDs))
	if r.Lease > 0 {
		var leased []dbsqlc.LeaseFreshRow
		leased, err = c.s.q.LeaseFresh(ctx, c.t, dbsqlc.LeaseFreshParams{
			ClaimEnd: int64(r.LeaseEnd()), Now: int64(r.Now), Ids: r.IDs, MaxPayload: maxPayload,
		})
		c.fresh = column(leased, func(row *dbsqlc.LeaseFreshRow) dbsqlc.TakeFreshRow { return dbsqlc.TakeFreshRow(*row) })
	} else {
		c.fresh, err = c.s.q.TakeFresh(ctx, c.t, dbsqlc.TakeFreshParams{Now: int64(r.Now), ClaimID: r.ClaimID, Ids: r.IDs, MaxPayload: maxPayload})
	}
	if hasCode(err, codeLockNotAvailable) {
		return c.giveUpFresh(ctx)
	}
	return err
}

// giveUpFresh leaves what was fresh to be judged with the others.
func (c *claim) giveUpFresh(ctx context.Context) error {
	c.fresh = nil
	return c.t.rollback(ctx)
}

// freshCandidate returns what a row of TakeFresh or LeaseFresh was before.
func freshCandidate(row *dbsqlc.TakeFreshRow) store.Candidate {
	return store.Candidate{
		ID: row.ID, Key: clock.Key{Application: row.Application, BusinessID: row.BusinessID}, State: clock.Scheduled,
		Generation: row.Generation, MaxRings: int(row.MaxRings), AckTimeout: time.Duration(row.AckTimeout) * time.Millisecond,
		LatestRingAt: clock.Instant(row.LatestRingAt), NextTryTime: clock.Instant(row.TargetRingAt), Rank: int(row.DueRank),
		RungAt: clock.NoInstant, UpdateTime: clock.Instant(row.CreateTime), PayloadLength: len(row.Payload),
	}
}

// notFresh returns the ids that takeFresh did not take.
func (c *claim) notFresh() []int64 {
	switch len(c.fresh) {
	case 0:
		return c.request.IDs
	case len(c.request.IDs):
		return nil
	}
	taken := make(map[int64]bool, len(c.fresh))
	for i := range c.fresh {
		taken[c.fresh[i].ID] = true
	}
	return slices.DeleteFunc(slices.Clone(c.request.IDs), func(id int64) bool { return taken[id] })
}

// judge locks what is to be taken and is not fresh, and nothing else. Where rows are to be ended, that is committed first, so
// that they are over whatever becomes of the rings; where rows are left, all locks are given up and the others locked again; in
// both cases what was fresh is given up before and judged, too. All of it happens seldom.
func (c *claim) judge(ctx context.Context) (all store.Judged, err error) {
	ids := c.notFresh()
	for len(ids) > 0 {
		locked, err := c.s.q.LockDue(ctx, c.t, dbsqlc.LockDueParams{Ids: ids, Now: int64(c.request.Now)})
		if err != nil {
			return all, fmt.Errorf("lock: %w", err)
		}
		judged := c.request.Judge(column(locked, candidateOf))
		switch {
		case len(c.fresh) > 0 && len(judged.Ended)+len(judged.Left)+len(judged.Once) > 0:
			ids, err = c.request.IDs, c.giveUpFresh(ctx)
		case len(judged.Ended) > 0:
			err = c.end(ctx, &judged)
			all.Ended = append(all.Ended, judged.Ended...)
		case len(judged.Left)+len(judged.Once) > 0:
			err = c.t.rollback(ctx)
			all.Left, all.Once = append(all.Left, judged.Left...), append(all.Once, judged.Once...)
			ids = idsOfCandidates(judged.Taken)
		default:
			all.Taken = judged.Taken
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// end writes what ended, with its attempts, and commits, in one round trip; the next statement begins anew.
func (c *claim) end(ctx context.Context, judged *store.Judged) error {
	var p pipeline
	ended := judged.Ended
	err := c.s.q.EndAlarms(ctx, &p, dbsqlc.EndAlarmsParams{
		Now:     int64(c.request.Now),
		Ids:     column(ended, func(e *store.Ended) int64 { return e.ID }),
		States:  column(ended, func(e *store.Ended) int64 { return int64(e.State) }),
		Reasons: column(ended, func(e *store.Ended) string { return textOf(e.Reason) }),
	})
	if err != nil {
		return err
	}
	if err := addAttempts(ctx, c.s.q, &p, judged.Attempts); err != nil {
		return err
	}
	return c.t.send(ctx, &p)
}

// addAttempts adds attempts and keeps the newest of each alarm (InsertAttempts, PruneAttempts).
func addAttempts(ctx context.Context, q *dbsqlc.Queries, db dbsqlc.DBTX, attempts []store.Attempted) error {
	if len(attempts) == 0 {
		return nil
	}
	if err := q.InsertAttempts(ctx, db, attemptParams(attempts)); err != nil {
		return err
	}
	return prune(ctx, q, db, attempts)
}

func prune(ctx context.Context, q *dbsqlc.Queries, db dbsqlc.DBTX, attempts []store.Attempted) error {
	return q.PruneAttempts(ctx, db, dbsqlc.PruneAttemptsParams{AlarmIds: column(attempts, idOfAttempted), Kept: clock.MaxAttempts})
}

func idsOfCandidates(rows []store.Candidate) []int64 {
	return column(rows, func(c *store.Candidate) int64 { return c.ID })
}

// write is the conditional UPDATE that decides the claim.
func (c *claim) write(ctx context.Context, ids []int64) ([]dbsqlc.Alarm, error) {
	now := c.request.Now
	if c.request.Once {
		return c.s.q.TakeOnce(ctx, c.t, dbsqlc.TakeOnceParams{ClaimID: c.request.ClaimID, Now: int64(now), Ids: ids})
	}
	if c.request.Lease > 0 {
		return c.s.q.LeaseAlarms(ctx, c.t, dbsqlc.LeaseAlarmsParams{
			ClaimEnd: int64(c.request.LeaseEnd()), Now: int64(now), Ids: ids,
		})
	}
	return c.s.q.TakeAlarms(ctx, c.t, dbsqlc.TakeAlarmsParams{Now: int64(now), ClaimID: c.request.ClaimID, Ids: ids})
}

// collect makes the rings of what was taken, in the order in which it was judged, of its rows: those written and the fresh ones.
func (c *claim) collect(taken []store.Candidate, written []dbsqlc.Alarm) error {
	byID := make(map[int64]*dbsqlc.Alarm, len(written))
	for i := range written {
		byID[written[i].ID] = &written[i]
	}
	fresh := make(map[int64]*dbsqlc.TakeFreshRow, len(c.fresh))
	for i := range c.fresh {
		fresh[c.fresh[i].ID] = &c.fresh[i]
	}
	c.rings = make([]clock.Ring, 0, len(taken))
	c.before, c.held = make([]store.Candidate, 0, len(taken)), make([]store.Left, 0, len(taken))
	for i := range taken {
		var err error
		before := &taken[i]
		if row := fresh[before.ID]; row != nil {
			err = c.addFresh(row, before)
		} else if row := byID[before.ID]; row != nil {
			err = c.addWritten(row, before)
		} // else it changed between the statements, on a server that does not lock
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *claim) add(ring clock.Ring, before *store.Candidate, held store.Left) {
	c.rings, c.before, c.held = append(c.rings, ring), append(c.before, *before), append(c.held, held)
}

// addWritten adds the ring of a row that LockDue told of.
func (c *claim) addWritten(row *dbsqlc.Alarm, before *store.Candidate) error {
	a, err := alarmOf(*row)
	if err != nil {
		return err
	}
	c.add(ringOf(&a, before, &c.request), before,
		store.Left{State: a.State, NextTryTime: a.NextTryTime, RungAt: a.RungAt, ClaimID: a.ClaimID})
	return nil
}

// addFresh adds the ring of a row that was as it was set.
func (c *claim) addFresh(row *dbsqlc.TakeFreshRow, before *store.Candidate) error {
	retry, err := clock.DecodeRetryPolicy(row.RetryPolicy)
	if err != nil {
		return err
	}
	c.add(clock.Ring{
		AlarmID: row.ID, Key: before.Key, Shard: int(row.Shard), Generation: row.Generation, RingNo: 1,
		RingAt: clock.Instant(row.TargetRingAt), LatestRingAt: before.LatestRingAt, RungAt: c.request.Now, ClaimID: c.request.ClaimID,
		Payload: row.Payload, PayloadKind: clock.PayloadKind(row.PayloadKind), ContentType: row.ContentType, Retry: retry,
		AckTimeout: before.AckTimeout, MaxRings: before.MaxRings, Priority: int(row.Priority), Traceparent: row.Traceparent,
	}, before, c.freshLeft(before))
	return nil
}

// freshLeft returns what TakeFresh or LeaseFresh made of a row.
func (c *claim) freshLeft(before *store.Candidate) store.Left {
	r := &c.request
	left := store.Left{State: clock.Rung, NextTryTime: clock.NoInstant, RungAt: r.Now, ClaimID: r.ClaimID}
	switch {
	case r.Lease > 0:
		left = store.LeftBy(r, before)
	case before.AckTimeout > 0:
		left.State, left.NextTryTime = clock.Ringing, r.Now.Add(before.AckTimeout)
	}
	return left
}

// Settle writes what did not come out as claimed (of a two-phase claim, everything) and what has attempts, and commits, in one
// round trip.
func (c *claim) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	if len(fates) != len(c.rings) {
		panic(fmt.Sprintf("postgresql: %d fates of %d rings", len(fates), len(c.rings)))
	}
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	attempts := store.Attempts(c.rings, c.before, fates, now)
	tried := make(map[int64]bool, len(attempts))
	for i := range attempts {
		tried[attempts[i].AlarmID] = true
	}
	if c.t == nil && !c.request.Once && len(attempts) == 0 && store.AllConfirmed(fates) {
		return c.s.mapError("settle", c.finish(ctx, now))
	}
	var corrections []correction
	for i := range fates {
		if c.t == nil || fates[i].Outcome.Kind != clock.Confirmed || tried[c.rings[i].AlarmID] {
			corrections = append(corrections, c.correction(i, now, &fates[i]))
		}
	}
	return c.s.mapError("settle", c.correct(ctx, corrections, attempts))
}

// finish writes the confirmed outcome of a two-phase claim (FinishAlarms).
func (c *claim) finish(ctx context.Context, now clock.Instant) error {
	p := dbsqlc.FinishAlarmsParams{
		RungAt: int64(c.request.Now), ClaimID: c.request.ClaimID, Now: int64(now), ClaimEnd: int64(c.request.LeaseEnd()),
		Ids:         column(c.rings, func(r *clock.Ring) int64 { return r.AlarmID }),
		Generations: column(c.rings, func(r *clock.Ring) int64 { return r.Generation }),
	}
	return c.s.metrics.Replay(ctx, replayReason, func() error {
		return c.inOneTrip(ctx, func(db *pipeline) error { return c.s.q.FinishAlarms(ctx, db, p) })
	})
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
	return c.s.mapError("release", c.correct(ctx, corrections, nil))
}

// correction is what is written to a row in place of what the claim wrote.
type correction struct {
	store.Settlement
	held       store.Left
	updateTime clock.Instant
}

func (c *claim) correction(i int, now clock.Instant, f *clock.Fate) correction {
	return correction{Settlement: store.Settled(&c.rings[i], &c.before[i], f), held: c.held[i], updateTime: now}
}

// undo returns the row as it was before the claim.
func (c *claim) undo(i int) correction {
	return correction{Settlement: store.Undone(&c.rings[i], &c.before[i]), held: c.held[i], updateTime: c.before[i].UpdateTime}
}

// correct writes the corrections and those of the attempts whose rows were still held, and commits; afterwards the claim is over.
func (c *claim) correct(ctx context.Context, corrections []correction, attempts []store.Attempted) error {
	if c.t == nil {
		return c.s.metrics.Replay(ctx, replayReason, func() error {
			return c.inOneTrip(ctx, func(p *pipeline) error { return c.writeCorrections(ctx, p, corrections, attempts) })
		})
	}
	defer c.t.close(ctx)
	if len(corrections) == 0 {
		return c.t.commit(ctx)
	}
	var p pipeline
	if err := c.writeCorrections(ctx, &p, corrections, attempts); err != nil {
		return err
	}
	return c.t.send(ctx, &p)
}

// inOneTrip does what write queues in a transaction of its own, in one round trip.
func (c *claim) inOneTrip(ctx context.Context, write func(p *pipeline) error) error {
	t, err := begin(ctx, c.s.rings, 0)
	if err != nil {
		return err
	}
	defer t.close(ctx)
	var p pipeline
	p.Queue(sqlBegin)
	if err := write(&p); err != nil {
		return err
	}
	return t.send(ctx, &p)
}

func (c *claim) writeCorrections(ctx context.Context, db dbsqlc.DBTX, corrections []correction, attempts []store.Attempted) error {
	err := c.s.q.SettleAlarms(ctx, db, settleParams(corrections, attempts))
	if err != nil || len(attempts) == 0 {
		return err
	}
	return prune(ctx, c.s.q, db, attempts)
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

// ringOf returns the ring of a row that was taken.
func ringOf(a *clock.Alarm, before *store.Candidate, r *store.ClaimRequest) clock.Ring {
	return clock.Ring{
		AlarmID: a.ID, Key: a.Key, Shard: a.Shard, Generation: a.Generation, RingNo: before.RingNo + 1, RetryTimes: a.RetryTimes,
		RingAt: a.RingAt, LatestRingAt: a.LatestRingAt, RungAt: r.Now, ClaimID: r.ClaimID, Payload: a.Payload,
		PayloadKind: a.PayloadKind, ContentType: a.ContentType, Retry: a.Retry, AckTimeout: a.AckTimeout, MaxRings: a.MaxRings,
		Priority: a.Priority, Delivery: a.Delivery, Traceparent: a.Traceparent, InDoubt: before.InDoubt || before.Claimed(),
	}
}
