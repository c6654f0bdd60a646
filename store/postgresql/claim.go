package postgresql

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// Claim takes the free and due alarms among the ids. Fresh rows (see the package comment) are taken at once (TakeFresh, LeaseFresh). The
// other rows are locked and judged first (LockDue, which does not wait), and then taken by a conditional UPDATE (TakeAlarms, LeaseAlarms,
// TakeOnce).
func (d *Driver) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	ctx, cancel := d.deadline(ctx)
	defer cancel()
	t, err := beginGuarded(ctx, d.rings, 0)
	if err != nil {
		return nil, d.mapError("claim", err)
	}
	c := &claim{s: d, t: t, request: r}
	claimed, err := c.take(ctx)
	if err == nil && !c.holds() {
		err = t.commit(ctx)
	}
	if err != nil {
		t.close(ctx)
		return nil, d.mapError("claim", err)
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

// claim is a store.Settler. Its rings know their rows before the claim.
type claim struct {
	s           *Driver
	t           *tx // open transaction with the locks; nil after a two-phase claim has committed
	request     store.ClaimRequest
	fresh       []dbsqlc.TakeFreshRow // fresh rows taken in the open transaction
	freshBefore []store.Candidate     // the fresh rows before the claim, in the same order
	rings       []clock.Ring
}

var _ store.Settler = (*claim)(nil)

// holds reports whether the claim keeps its transaction open until it is settled.
func (c *claim) holds() bool {
	return len(c.rings) > 0 && c.request.Lease == 0 && !c.request.AtMostOnce
}

// take takes the fresh rows, and then locks, judges and writes the other rows.
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
		if written, err = c.write(ctx, taken); err != nil {
			return nil, fmt.Errorf("take: %w", err)
		}
	}
	taken = append(taken, c.freshBefore...)
	slices.SortFunc(taken, func(a, b store.Candidate) int { return a.Position().Compare(b.Position()) })
	c.collect(taken, written)
	return &store.Claim{Rings: c.rings, Ended: judged.EndedAlarms(), Deferred: judged.Deferred, AtMostOnce: judged.AtMostOnce}, nil
}

// takeFresh takes the fresh rows whose payload is not larger than an equal share of MaxBytes. It waits at most ringLockWait for a row that
// another transaction takes at this moment. After that wait it takes no row.
func (c *claim) takeFresh(ctx context.Context) (err error) {
	r := &c.request
	if r.AtMostOnce || len(r.IDs) == 0 {
		return nil
	}
	maxPayload := int64(r.MaxBytes / len(r.IDs))
	if r.Lease > 0 {
		var leased []dbsqlc.LeaseFreshRow
		leased, err = c.s.q.LeaseFresh(ctx, c.t, dbsqlc.LeaseFreshParams{
			ClaimEnd: int64(r.LeaseEnd()), Now: int64(r.Now), Ids: r.IDs, MaxPayload: maxPayload,
		})
		c.fresh = engine.Column(leased, func(row *dbsqlc.LeaseFreshRow) dbsqlc.TakeFreshRow { return dbsqlc.TakeFreshRow(*row) })
	} else {
		c.fresh, err = c.s.q.TakeFresh(ctx, c.t, dbsqlc.TakeFreshParams{Now: int64(r.Now), ClaimID: r.ClaimID, Ids: r.IDs, MaxPayload: maxPayload})
	}
	c.freshBefore = engine.Column(c.fresh, freshCandidate)
	unreadable := func(row store.Candidate) bool { return row.Unreadable != "" }
	if hasCode(err, codeLockNotAvailable) || slices.ContainsFunc(c.freshBefore, unreadable) || r.HasEarlyCandidate(c.freshBefore, c.t.clock) {
		return c.giveUpFresh(ctx)
	}
	return err
}

// giveUpFresh gives up the fresh rows. They are then judged like the other rows.
func (c *claim) giveUpFresh(ctx context.Context) error {
	c.fresh, c.freshBefore = nil, nil
	return c.t.rollback(ctx)
}

// freshCandidate returns a row of TakeFresh or LeaseFresh as it was before the claim.
func freshCandidate(row *dbsqlc.TakeFreshRow) store.Candidate {
	v := engine.CheckedColumns{
		State: int64(clock.Scheduled), PayloadKind: row.PayloadKind, Generation: row.Generation, MaxRings: row.MaxRings, AckTimeout: row.AckTimeout,
		RingAt: clock.Instant(row.TargetRingAt), LatestRingAt: clock.Instant(row.LatestRingAt), NextTryTime: clock.Instant(row.TargetRingAt),
		RungAt: clock.NoInstant, UpdateTime: clock.Instant(row.CreateTime), PayloadLength: len(row.Payload), RetryPolicy: row.RetryPolicy,
	}
	retry, unreadable := v.Decode()
	return store.Candidate{
		ID: row.ID, Key: clock.Key{Application: row.Application, BusinessID: row.BusinessID}, Generation: row.Generation,
		RingRow: clock.RingRow{
			State: clock.Scheduled, NextTryTime: clock.Instant(row.TargetRingAt), RungAt: clock.NoInstant,
			UpdateTime: clock.Instant(row.CreateTime),
		},
		MaxRings: int(row.MaxRings), AckTimeout: time.Duration(row.AckTimeout) * time.Millisecond,
		LatestRingAt: clock.Instant(row.LatestRingAt), Rank: int(row.DueRank), PayloadLength: len(row.Payload), Retry: retry,
		Unreadable: unreadable,
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

// judge locks the rows to be taken that are not fresh. It keeps no other locks.
//
// Rows that end are committed first, so that their end does not depend on the outcome of the rings. If rows are left for a later claim,
// judge gives up all locks and locks the taken rows again. In both cases it first gives up the fresh rows and judges them too. Both
// cases are rare.
func (c *claim) judge(ctx context.Context) (all store.Judgment, err error) {
	ids := c.notFresh()
	for len(ids) > 0 {
		locked, err := c.s.q.LockDue(ctx, c.t, dbsqlc.LockDueParams{Ids: ids, Now: int64(c.request.Now)})
		if err != nil {
			return all, fmt.Errorf("lock: %w", err)
		}
		judged := c.request.Judge(engine.Column(locked, candidateOf), c.t.clock)
		switch {
		case len(c.fresh) > 0 && len(judged.Ended)+len(judged.Deferred)+len(judged.AtMostOnce)+judged.PassedOver > 0:
			ids, err = c.request.IDs, c.giveUpFresh(ctx)
		case len(judged.Ended) > 0:
			err = c.end(ctx, &judged)
			all.Ended = append(all.Ended, judged.Ended...)
		case len(judged.Deferred)+len(judged.AtMostOnce)+judged.PassedOver > 0:
			err = c.t.rollback(ctx)
			all.Deferred, all.AtMostOnce = append(all.Deferred, judged.Deferred...), append(all.AtMostOnce, judged.AtMostOnce...)
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

// end writes the ended alarms and their attempts, and commits, in one round trip. The next statement begins a new transaction.
func (c *claim) end(ctx context.Context, judged *store.Judgment) error {
	var p pipeline
	params := endParams(judged)
	params.Now = int64(c.request.Now)
	if err := c.s.q.EndAlarms(ctx, &p, params); err != nil {
		return err
	}
	if len(judged.Attempts) > 0 {
		if err := prune(ctx, c.s.q, &p, judged.Attempts); err != nil {
			return err
		}
	}
	return c.t.send(ctx, &p)
}

// addAttempts adds attempts and keeps only the newest attempts of each alarm (InsertAttempts, PruneAttempts).
func addAttempts(ctx context.Context, q *dbsqlc.Queries, db dbsqlc.DBTX, attempts []store.AlarmAttempt) error {
	if len(attempts) == 0 {
		return nil
	}
	if err := q.InsertAttempts(ctx, db, attemptParams(attempts)); err != nil {
		return err
	}
	return prune(ctx, q, db, attempts)
}

func prune(ctx context.Context, q *dbsqlc.Queries, db dbsqlc.DBTX, attempts []store.AlarmAttempt) error {
	return q.PruneAttempts(ctx, db, dbsqlc.PruneAttemptsParams{AlarmIds: engine.Column(attempts, idOfAttempted), Kept: clock.MaxAttempts})
}

func idsOfCandidates(rows []store.Candidate) []int64 {
	return engine.Column(rows, func(c *store.Candidate) int64 { return c.ID })
}

// write runs the conditional UPDATE that decides the claim. It changes only the row versions that LockDue read.
func (c *claim) write(ctx context.Context, taken []store.Candidate) ([]dbsqlc.Alarm, error) {
	p := takeParams(taken)
	p.Now, p.ClaimID = int64(c.request.Now), c.request.ClaimID
	if c.request.AtMostOnce {
		return c.s.q.TakeOnce(ctx, c.t, dbsqlc.TakeOnceParams{
			ClaimID: p.ClaimID, Now: p.Now, Ids: p.Ids, Generations: p.Generations, States: p.States, RingNos: p.RingNos,
			RetryTimes: p.RetryTimes, InDoubts: p.InDoubts, NextTryTimes: p.NextTryTimes, UpdateTimes: p.UpdateTimes,
		})
	}
	if c.request.Lease > 0 {
		return c.s.q.LeaseAlarms(ctx, c.t, dbsqlc.LeaseAlarmsParams{
			ClaimEnd: int64(c.request.LeaseEnd()), Now: p.Now, Ids: p.Ids, Generations: p.Generations, States: p.States, RingNos: p.RingNos,
			RetryTimes: p.RetryTimes, InDoubts: p.InDoubts, NextTryTimes: p.NextTryTimes, UpdateTimes: p.UpdateTimes,
		})
	}
	return c.s.q.TakeAlarms(ctx, c.t, p)
}

// collect makes the rings of the taken candidates, in their order. It reads them from the rows written by UPDATE and from the fresh rows.
func (c *claim) collect(taken []store.Candidate, written []dbsqlc.Alarm) {
	byID := make(map[int64]*dbsqlc.Alarm, len(written))
	for i := range written {
		byID[written[i].ID] = &written[i]
	}
	fresh := make(map[int64]*dbsqlc.TakeFreshRow, len(c.fresh))
	for i := range c.fresh {
		fresh[c.fresh[i].ID] = &c.fresh[i]
	}
	c.rings = make([]clock.Ring, 0, len(taken))
	for i := range taken {
		before := &taken[i]
		if row := fresh[before.ID]; row != nil {
			c.addFresh(row, before)
		} else if row := byID[before.ID]; row != nil {
			c.addWritten(row, before)
		} // else the row changed between the statements, on a server that ignores locks
	}
}

// addWritten adds the ring of a row that LockDue locked.
func (c *claim) addWritten(row *dbsqlc.Alarm, before *store.Candidate) {
	a := alarmOf(*row)
	ring := c.request.Ring(before)
	ring.Shard, ring.RingAt, ring.Priority, ring.Traceparent = a.Shard, a.RingAt, a.Priority, a.Traceparent
	ring.Payload, ring.PayloadKind, ring.ContentType = a.Payload, a.PayloadKind, a.ContentType
	c.rings = append(c.rings, ring)
}

// addFresh adds the ring of a fresh row.
func (c *claim) addFresh(row *dbsqlc.TakeFreshRow, before *store.Candidate) {
	ring := c.request.Ring(before)
	ring.Shard, ring.RingAt, ring.Priority, ring.Traceparent = int(row.Shard), clock.Instant(row.TargetRingAt), int(row.Priority), row.Traceparent
	ring.Payload, ring.PayloadKind, ring.ContentType = row.Payload, clock.PayloadKind(row.PayloadKind), row.ContentType
	c.rings = append(c.rings, ring)
}

// Settle writes the rows with attempts, and the rows whose fate differs from the row that the claim wrote. It commits in the same round
// trip.
func (c *claim) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	if len(fates) != len(c.rings) {
		panic(fmt.Sprintf("postgresql: %d fates of %d rings", len(fates), len(c.rings)))
	}
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	attempts := store.FateAttempts(c.rings, fates, now)
	if c.request.FinishesAtOnce(c.rings, fates, attempts) {
		return c.s.mapError("settle", c.finish(ctx))
	}
	settled := c.request.Settlements(c.rings, fates, store.Attempted(attempts))
	return c.s.mapError("settle", c.settle(ctx, settled, attempts))
}

// finish writes the confirmed rows of a two-phase claim (FinishAlarms).
func (c *claim) finish(ctx context.Context) error {
	p := dbsqlc.FinishAlarmsParams{
		RungAt: int64(c.request.Now), ClaimID: c.request.ClaimID, ClaimEnd: int64(c.request.LeaseEnd()),
		Ids:         engine.Column(c.rings, func(r *clock.Ring) int64 { return r.AlarmID }),
		Generations: engine.Column(c.rings, func(r *clock.Ring) int64 { return r.Generation }),
	}
	return c.s.calls.Replay(ctx, func() error {
		return c.inOneRoundTrip(ctx, func(db *pipeline) error { return c.s.q.FinishAlarms(ctx, db, p) })
	})
}

// Release rolls back a held claim. It writes the rows of a two-phase claim as they were before.
func (c *claim) Release(ctx context.Context) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	if c.t != nil {
		err := c.t.rollback(ctx)
		c.t.close(ctx)
		return c.s.mapError("release", err)
	}
	return c.s.mapError("release", c.settle(ctx, c.request.Restorations(c.rings), nil))
}

// settle writes the settlements and commits. It adds only the attempts of rows that the claim still held. Afterwards the claim is over.
func (c *claim) settle(ctx context.Context, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	switch {
	case c.t == nil && len(settled) == 0:
		return nil
	case c.t == nil:
		return c.s.calls.Replay(ctx, func() error {
			return c.inOneRoundTrip(ctx, func(p *pipeline) error { return c.writeSettled(ctx, p, settled, attempts) })
		})
	}
	defer c.t.close(ctx)
	if len(settled) == 0 {
		return c.t.commit(ctx)
	}
	var p pipeline
	if err := c.writeSettled(ctx, &p, settled, attempts); err != nil {
		return err
	}
	return c.t.send(ctx, &p)
}

// inOneRoundTrip runs the statements that write queues as a transaction, in one round trip.
func (c *claim) inOneRoundTrip(ctx context.Context, write func(p *pipeline) error) error {
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

func (c *claim) writeSettled(ctx context.Context, db dbsqlc.DBTX, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	err := c.s.q.SettleAlarms(ctx, db, settleParams(settled, attempts))
	if err != nil || len(attempts) == 0 {
		return err
	}
	return prune(ctx, c.s.q, db, attempts)
}

func candidateOf(r *dbsqlc.LockDueRow) store.Candidate {
	v := engine.CheckedColumns{
		State: r.State, PayloadKind: r.PayloadKind, Delivery: r.Delivery, InDoubt: r.InDoubt, Generation: r.Generation, RingNo: r.RingNo, RetryTimes: r.RetryTimes,
		MaxRings: r.MaxRings, AckTimeout: r.AckTimeout, RingAt: clock.Instant(r.TargetRingAt), LatestRingAt: engine.FromNull(r.LatestRingAt),
		NextTryTime: engine.FromNull(r.NextTryTime), RungAt: engine.FromNull(r.RungAt), UpdateTime: clock.Instant(r.UpdateTime),
		PayloadLength: int(r.PayloadLength), RetryPolicy: r.RetryPolicy,
	}
	retry, unreadable := v.Decode()
	return store.Candidate{
		ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, Generation: r.Generation,
		RingRow: clock.RingRow{
			State: clock.State(r.State), NextTryTime: engine.FromNull(r.NextTryTime), RingNo: int(r.RingNo), RetryTimes: int(r.RetryTimes),
			LastError: r.LastError, InDoubt: r.InDoubt != 0, ClaimID: r.ClaimID, RungAt: engine.FromNull(r.RungAt),
			UpdateTime: clock.Instant(r.UpdateTime),
		},
		MaxRings: int(r.MaxRings), AckTimeout: time.Duration(r.AckTimeout) * time.Millisecond, Delivery: clock.DeliveryMode(r.Delivery),
		LatestRingAt: engine.FromNull(r.LatestRingAt), Rank: int(r.DueRank), PayloadLength: int(r.PayloadLength), Retry: retry,
		Unreadable: unreadable,
	}
}
