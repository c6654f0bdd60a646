package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

var _ store.Settler = (*settler)(nil)

// errHeld refuses a claim that would hold the only writer. A claim of AtMostOnce never holds it.
var errHeld = errors.New("sqlite: a claim without a lease would hold the only writer")

// Claim takes due alarms, in two phases. It commits the claim (LockDue, EndAlarms, and LeaseAlarms or TakeOnce); Settle writes the outcomes
// later.
func (d *Driver) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	if r.Lease <= 0 && !r.AtMostOnce {
		return nil, errHeld
	}
	ctx, cancel := d.deadline(ctx)
	defer cancel()
	c := &store.Claim{}
	var taken []store.Candidate
	err := d.guarded(ctx, func(tx *writeTx) error {
		rows, err := d.q.LockDue(ctx, tx, dbsqlc.LockDueParams{Ids: jsonNumbers(r.IDs), Now: int64(r.Now)})
		if err != nil {
			return err
		}
		judged := r.Judge(candidatesOf(rows), clock.Instant(time.Now().UnixMilli()))
		taken, c.Ended, c.Deferred, c.AtMostOnce = judged.Taken, judged.EndedAlarms(), judged.Deferred, judged.AtMostOnce
		if err := d.end(ctx, tx, r.Now, judged); err != nil {
			return err
		}
		c.Rings, err = d.take(ctx, tx, r, rows, taken)
		return err
	})
	if err != nil {
		return nil, d.mapError(ctx, "claim", err)
	}
	if len(c.Rings) > 0 {
		c.Settler = &settler{s: d, request: r, rings: c.Rings}
	}
	return c, nil
}

// end writes the alarms that cannot ring any more, and their attempts.
func (d *Driver) end(ctx context.Context, tx *writeTx, now clock.Instant, judged store.Judgment) error {
	for i := range judged.Ended {
		e := &judged.Ended[i]
		n, err := d.q.EndAlarms(ctx, tx, dbsqlc.EndAlarmsParams{
			InDoubt: engine.Bit(e.Fate.InDoubt), State: int64(e.Fate.State), LastError: e.Fate.LastError, Now: int64(now), ID: e.ID,
		})
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("end alarm %d: %w", e.ID, engine.ErrReplay)
		}
	}
	return tx.addAttempts(ctx, judged.Attempts)
}

// take takes the candidates and returns their rings, in the same order. rows contains the row of each candidate.
func (d *Driver) take(
	ctx context.Context, tx *writeTx, r store.ClaimRequest, rows []dbsqlc.LockDueRow, taken []store.Candidate,
) ([]clock.Ring, error) {
	if len(taken) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(taken))
	for i := range taken {
		ids[i] = taken[i].ID
	}
	payloads, err := d.writeClaim(ctx, tx, r, jsonNumbers(ids))
	if err != nil {
		return nil, err
	}
	if len(payloads) != len(taken) {
		return nil, fmt.Errorf("%d of %d rows taken: %w", len(payloads), len(taken), engine.ErrReplay)
	}
	rings := make([]clock.Ring, len(taken))
	for i := range taken {
		at, _ := slices.BinarySearchFunc(rows, ids[i], func(row dbsqlc.LockDueRow, id int64) int { return cmp.Compare(row.ID, id) })
		rings[i] = ringOf(&rows[at], &taken[i], &r)
		rings[i].Payload = payloads[ids[i]]
	}
	return rings, nil
}

// writeClaim takes the alarms with these ids. It returns the payloads of the taken alarms, by id.
func (d *Driver) writeClaim(ctx context.Context, tx *writeTx, r store.ClaimRequest, ids string) (map[int64][]byte, error) {
	if r.AtMostOnce {
		rows, err := d.q.TakeOnce(ctx, tx, dbsqlc.TakeOnceParams{ClaimID: r.ClaimID, Now: int64(r.Now), Ids: ids})
		return payloadsOf(rows), err
	}
	rows, err := d.q.LeaseAlarms(ctx, tx, dbsqlc.LeaseAlarmsParams{ClaimEnd: int64(r.LeaseEnd()), Now: int64(r.Now), Ids: ids})
	return payloadsOf(rows), err
}

func payloadsOf[Row dbsqlc.LeaseAlarmsRow | dbsqlc.TakeOnceRow](rows []Row) map[int64][]byte {
	payloads := make(map[int64][]byte, len(rows))
	for _, r := range rows {
		row := dbsqlc.LeaseAlarmsRow(r)
		payloads[row.ID] = row.Payload
	}
	return payloads
}

func candidatesOf(rows []dbsqlc.LockDueRow) []store.Candidate {
	candidates := make([]store.Candidate, len(rows))
	for i := range rows {
		r := &rows[i]
		candidates[i] = store.Candidate{
			ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, Generation: r.Generation,
			RingRow: clock.RingRow{
				State: clock.State(r.State), NextTryTime: engine.FromNull(r.NextTryTime), RingNo: int(r.RingNo), RetryTimes: int(r.RetryTimes),
				LastError: r.LastError, InDoubt: r.InDoubt != 0, ClaimID: r.ClaimID, RungAt: engine.FromNull(r.RungAt),
				UpdateTime: clock.Instant(r.UpdateTime),
			},
			MaxRings: int(r.MaxRings), AckTimeout: time.Duration(r.AckTimeout) * time.Millisecond, Delivery: clock.DeliveryMode(r.Delivery),
			LatestRingAt: engine.FromNull(r.LatestRingAt), Rank: int(r.DueRank), PayloadLength: int(r.PayloadLength),
		}
		v := engine.CheckedColumns{
			State: r.State, PayloadKind: r.PayloadKind, Delivery: r.Delivery, InDoubt: r.InDoubt, Generation: r.Generation, RingNo: r.RingNo, RetryTimes: r.RetryTimes,
			MaxRings: r.MaxRings, AckTimeout: r.AckTimeout, RingAt: clock.Instant(r.TargetRingAt), LatestRingAt: candidates[i].LatestRingAt,
			NextTryTime: candidates[i].NextTryTime, RungAt: candidates[i].RungAt, UpdateTime: candidates[i].UpdateTime,
			PayloadLength: candidates[i].PayloadLength, RetryPolicy: r.RetryPolicy,
		}
		candidates[i].Retry, candidates[i].Unreadable = v.Decode()
	}
	return candidates
}

// ringOf returns the ring of a taken row, without its payload.
func ringOf(r *dbsqlc.LockDueRow, c *store.Candidate, request *store.ClaimRequest) clock.Ring {
	ring := request.Ring(c)
	ring.Shard, ring.RingAt, ring.Priority, ring.Traceparent = int(r.Shard), clock.Instant(r.TargetRingAt), int(r.Priority), r.Traceparent
	ring.PayloadKind, ring.ContentType = clock.PayloadKind(r.PayloadKind), r.ContentType
	return ring
}

// settler finishes a two-phase claim.
type settler struct {
	s       *Driver
	request store.ClaimRequest
	rings   []clock.Ring
}

// Settle writes the rows whose fate differs from the row that the claim wrote, and the attempts, in a transaction of its own. It passes
// over rows that the claim has lost (SettleAlarms, InsertAttempts, PruneAttempts).
func (c *settler) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	attempts := store.FateAttempts(c.rings, fates, now)
	attempted := store.Attempted(attempts)
	settled := c.request.Settlements(c.rings, fates, attempted)
	err := c.s.write(ctx, func(tx *writeTx) error {
		kept := make(map[int64]bool) // alarms with attempts whose rows the claim still held
		for i := range settled {
			if !attempted[settled[i].ID] {
				continue
			}
			held, err := tx.settle(ctx, &settled[i], []int64{settled[i].ID})
			if err != nil {
				return err
			}
			kept[settled[i].ID] = held > 0
		}
		if err := tx.addAttempts(ctx, store.AttemptsOf(attempts, kept)); err != nil {
			return err
		}
		return tx.settleGroups(ctx, slices.DeleteFunc(slices.Clone(settled), func(s store.Settlement) bool { return attempted[s.ID] }))
	})
	return c.s.mapError(ctx, "settle", err)
}

// settleGroups writes the settlements. Most rings of a batch have settlements that differ only in the ID: one statement writes them.
func (t *writeTx) settleGroups(ctx context.Context, settled []store.Settlement) error {
	groups := make(map[store.Settlement][]int64, 1)
	for _, s := range settled {
		id := s.ID
		s.ID = 0
		groups[s] = append(groups[s], id)
	}
	for s, ids := range groups {
		if _, err := t.settle(ctx, &s, ids); err != nil {
			return err
		}
	}
	return nil
}

// settle writes the rows with these ids. It returns how many of them the claim still held.
func (t *writeTx) settle(ctx context.Context, s *store.Settlement, ids []int64) (held int64, err error) {
	return t.q.SettleAlarms(ctx, t, dbsqlc.SettleAlarmsParams{
		State: int64(s.State), NextTryTime: engine.ToNull(s.NextTryTime), RingNo: int64(s.RingNo), RetryTimes: int64(s.RetryTimes),
		LastError: s.LastError, InDoubt: engine.Bit(s.InDoubt), ClaimID: s.ClaimID, RungAt: engine.ToNull(s.RungAt),
		UpdateTime: int64(s.UpdateTime), FinishedAt: engine.ToNull(s.FinishedAt),
		Ids: jsonNumbers(ids), Generation: s.Generation, HeldState: int64(s.Claimed.State), HeldClaimID: s.Claimed.ClaimID,
		HeldNextTryTime: engine.ToNull(s.Claimed.NextTryTime), HeldRungAt: engine.ToNull(s.Claimed.RungAt),
	})
}

// addAttempts adds attempts and keeps only the newest attempts of each alarm (InsertAttempts, PruneAttempts).
func (t *writeTx) addAttempts(ctx context.Context, attempts []store.AlarmAttempt) error {
	for _, a := range attempts {
		err := t.q.InsertAttempts(ctx, t, dbsqlc.InsertAttemptsParams{
			AlarmID: a.AlarmID, Generation: a.Generation, RingNo: int64(a.RingNo), ClaimID: a.ClaimID, AttemptTime: int64(a.Time),
			Outcome: int64(a.Outcome), Error: a.Error, AnsweredBy: a.By,
		})
		if err != nil {
			return err
		}
		if err := t.q.PruneAttempts(ctx, t, dbsqlc.PruneAttemptsParams{AlarmID: a.AlarmID, Kept: clock.MaxAttempts}); err != nil {
			return err
		}
	}
	return nil
}

// Release restores the rows as they were before the claim. It passes over rows that the claim has lost (SettleAlarms).
func (c *settler) Release(ctx context.Context) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	restored := c.request.Restorations(c.rings)
	err := c.s.write(ctx, func(tx *writeTx) error { return tx.settleGroups(ctx, restored) })
	return c.s.mapError(ctx, "release", err)
}
