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
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

var _ store.Settler = (*settler)(nil)

// errHeld refuses a claim that would hold the only writer; one of AtMostOnce never does.
var errHeld = errors.New("sqlite: a claim without a lease would hold the only writer")

// Claim takes what is due, in two phases: the claim is committed here (LockDue, EndAlarms, LeaseAlarms or TakeOnce).
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	if r.Lease <= 0 && !r.Once {
		return nil, errHeld
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	c := &store.Claim{}
	var taken []store.Candidate
	err := s.write(ctx, func(tx *writeTx) error {
		rows, err := s.q.LockDue(ctx, tx, dbsqlc.LockDueParams{Ids: list(r.IDs), Now: int64(r.Now)})
		if err != nil {
			return err
		}
		judged := r.Judge(candidatesOf(rows))
		taken, c.Ended, c.Left, c.Once = judged.Taken, judged.Ended, judged.Left, judged.Once
		if err := s.end(ctx, tx, r.Now, judged); err != nil {
			return err
		}
		c.Rings, err = s.take(ctx, tx, r, rows, taken)
		return err
	})
	if err != nil {
		return nil, s.mapError(ctx, "claim", err)
	}
	if len(c.Rings) > 0 {
		c.Settler = &settler{s: s, request: r, rings: c.Rings, before: taken}
	}
	return c, nil
}

// end writes those that cannot ring any more, with their attempts.
func (s *Store) end(ctx context.Context, tx *writeTx, now clock.Instant, judged store.Judged) error {
	for _, e := range judged.Ended {
		n, err := s.q.EndAlarms(ctx, tx, dbsqlc.EndAlarmsParams{State: int64(e.State), Reason: e.Reason, Now: int64(now), ID: e.ID})
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("end alarm %d: %w", e.ID, store.ErrReplay)
		}
	}
	return tx.addAttempts(ctx, judged.Attempts)
}

// take takes the candidates, which are of the rows, and returns their rings, in the same order.
func (s *Store) take(
	ctx context.Context, tx *writeTx, r store.ClaimRequest, rows []dbsqlc.LockDueRow, taken []store.Candidate,
) ([]clock.Ring, error) {
	if len(taken) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(taken))
	for i := range taken {
		ids[i] = taken[i].ID
	}
	payloads, err := s.writeClaim(ctx, tx, r, list(ids))
	if err != nil {
		return nil, err
	}
	if len(payloads) != len(taken) {
		return nil, fmt.Errorf("%d of %d rows taken: %w", len(payloads), len(taken), store.ErrReplay)
	}
	rings := make([]clock.Ring, len(taken))
	for i := range taken {
		at, _ := slices.BinarySearchFunc(rows, ids[i], func(row dbsqlc.LockDueRow, id int64) int { return cmp.Compare(row.ID, id) })
		if rings[i], err = ringOf(&rows[at], &taken[i], &r); err != nil {
			return nil, err
		}
		rings[i].Payload = payloads[ids[i]]
	}
	return rings, nil
}

// writeClaim takes the ids and returns the payloads of those that it took.
func (s *Store) writeClaim(ctx context.Context, tx *writeTx, r store.ClaimRequest, ids string) (map[int64][]byte, error) {
	if r.Once {
		rows, err := s.q.TakeOnce(ctx, tx, dbsqlc.TakeOnceParams{ClaimID: r.ClaimID, Now: int64(r.Now), Ids: ids})
		return payloadsOf(rows), err
	}
	rows, err := s.q.LeaseAlarms(ctx, tx, dbsqlc.LeaseAlarmsParams{ClaimEnd: int64(r.LeaseEnd()), Now: int64(r.Now), Ids: ids})
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
			ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, State: clock.State(r.State),
			Generation: r.Generation, RingNo: int(r.RingNo), MaxRings: int(r.MaxRings),
			AckTimeout: time.Duration(r.AckTimeout) * time.Millisecond, Delivery: clock.DeliveryMode(r.Delivery),
			LatestRingAt: store.FromNull(r.LatestRingAt), NextTryTime: store.FromNull(r.NextTryTime), Rank: int(r.DueRank), LastError: r.LastError,
			InDoubt: r.InDoubt != 0, ClaimID: r.ClaimID, RungAt: store.FromNull(r.RungAt), UpdateTime: clock.Instant(r.UpdateTime),
			PayloadLength: int(r.PayloadLength),
		}
	}
	return candidates
}

// ringOf returns the ring of a row that was taken, without its payload. Before TakeOnce none is in doubt.
func ringOf(r *dbsqlc.LockDueRow, c *store.Candidate, request *store.ClaimRequest) (clock.Ring, error) {
	retry, err := clock.DecodeRetryPolicy(r.RetryPolicy)
	return clock.Ring{
		AlarmID: c.ID, Key: c.Key, Shard: int(r.Shard), Generation: c.Generation, RingNo: c.RingNo + 1, RetryTimes: int(r.RetryTimes),
		RingAt: clock.Instant(r.TargetRingAt), LatestRingAt: c.LatestRingAt, RungAt: request.Now, ClaimID: request.ClaimID,
		PayloadKind: clock.PayloadKind(r.PayloadKind), ContentType: r.ContentType, Retry: retry, AckTimeout: c.AckTimeout,
		MaxRings: c.MaxRings, Priority: int(r.Priority), Delivery: c.Delivery, Traceparent: r.Traceparent,
		InDoubt: (c.InDoubt || c.Claimed()) && !request.Once,
	}, err
}

// settler finishes a two-phase claim.
type settler struct {
	s       *Store
	request store.ClaimRequest
	rings   []clock.Ring
	before  []store.Candidate // the rows as they were, one a ring
}

// Settle writes the fates in a transaction of its own, passing over rows that the claim has lost (SettleAlarms,
// InsertAttempts, PruneAttempts).
func (c *settler) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	err := c.s.write(ctx, func(tx *writeTx) error {
		alike := make(map[settlement][]int64, 1)
		for i := range fates {
			w := c.settlement(i, store.Settled(&c.rings[i], &c.before[i], &fates[i]), now)
			attempts := store.Attempts(c.rings[i:i+1], c.before[i:i+1], fates[i:i+1], now)
			if len(attempts) == 0 {
				alike[w] = append(alike[w], c.rings[i].AlarmID)
				continue
			}
			held, err := tx.settle(ctx, &w, []int64{c.rings[i].AlarmID})
			if err != nil {
				return err
			}
			if held == 0 {
				continue
			}
			if err := tx.addAttempts(ctx, attempts); err != nil {
				return err
			}
		}
		return tx.settleAlike(ctx, alike)
	})
	return c.s.mapError(ctx, "settle", err)
}

// settlement is all that SettleAlarms is told of a ring but the id: most rings of a batch have the same.
type settlement struct {
	store.Settlement // without the ID
	left             store.Left
	updated          clock.Instant
}

// settlement returns what to write to the row of ring i.
func (c *settler) settlement(i int, w store.Settlement, updated clock.Instant) settlement {
	w.ID = 0
	return settlement{Settlement: w, left: store.LeftBy(&c.request, &c.before[i]), updated: updated}
}

func (t *writeTx) settleAlike(ctx context.Context, alike map[settlement][]int64) error {
	for w, ids := range alike {
		if _, err := t.settle(ctx, &w, ids); err != nil {
			return err
		}
	}
	return nil
}

// settle writes the rows of the ids and returns of how many of them the claim still held.
func (t *writeTx) settle(ctx context.Context, w *settlement, ids []int64) (held int64, err error) {
	return t.q.SettleAlarms(ctx, t, dbsqlc.SettleAlarmsParams{
		State: int64(w.State), NextTryTime: store.ToNull(w.NextTryTime), RingNo: int64(w.RingNo), RetryTimes: int64(w.RetryTimes),
		LastError: w.LastError, InDoubt: flag(w.InDoubt), ClaimID: w.ClaimID, RungAt: store.ToNull(w.RungAt),
		UpdateTime: int64(w.updated), FinishedAt: store.ToNull(w.FinishedAt),
		Ids: list(ids), Generation: w.Generation, HeldState: int64(w.left.State), HeldClaimID: w.left.ClaimID,
		HeldNextTryTime: store.ToNull(w.left.NextTryTime), HeldRungAt: store.ToNull(w.left.RungAt),
	})
}

// addAttempts adds attempts and keeps the newest of each alarm (InsertAttempts, PruneAttempts).
func (t *writeTx) addAttempts(ctx context.Context, attempts []store.Attempted) error {
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

// Release writes the rows back as they were, passing over those that the claim has lost (SettleAlarms).
func (c *settler) Release(ctx context.Context) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	alike := make(map[settlement][]int64, 1)
	for i := range c.rings {
		w := c.settlement(i, store.Undone(&c.rings[i], &c.before[i]), c.before[i].UpdateTime)
		alike[w] = append(alike[w], c.rings[i].AlarmID)
	}
	err := c.s.write(ctx, func(tx *writeTx) error { return tx.settleAlike(ctx, alike) })
	return c.s.mapError(ctx, "release", err)
}
