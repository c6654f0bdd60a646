package sqlite

import (
	"context"
	"errors"
	"fmt"
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
		c.Rings, err = s.take(ctx, tx, r, taken)
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

// take takes the candidates and returns their rings, in the same order.
func (s *Store) take(ctx context.Context, tx *writeTx, r store.ClaimRequest, taken []store.Candidate) ([]clock.Ring, error) {
	if len(taken) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(taken))
	for i := range taken {
		ids[i] = taken[i].ID
	}
	rows, err := s.writeClaim(ctx, tx, r, list(ids))
	if err != nil {
		return nil, err
	}
	if len(rows) != len(taken) {
		return nil, fmt.Errorf("%d of %d rows taken: %w", len(rows), len(taken), store.ErrReplay)
	}
	byID := make(map[int64]clock.Alarm, len(rows))
	for _, row := range rows {
		a, err := alarmOf(row)
		if err != nil {
			return nil, err
		}
		byID[a.ID] = a
	}
	rings := make([]clock.Ring, len(ids))
	for i, id := range ids {
		a := byID[id]
		rings[i] = ringOf(&a, &r)
	}
	return rings, nil
}

func (s *Store) writeClaim(ctx context.Context, tx *writeTx, r store.ClaimRequest, ids string) ([]dbsqlc.Alarm, error) {
	if r.Once {
		return s.q.TakeOnce(ctx, tx, dbsqlc.TakeOnceParams{ClaimID: r.ClaimID, Now: int64(r.Now), Ids: ids})
	}
	return s.q.LeaseAlarms(ctx, tx, dbsqlc.LeaseAlarmsParams{ClaimEnd: int64(r.Now.Add(r.Lease)), Now: int64(r.Now), Ids: ids})
}

func candidatesOf(rows []dbsqlc.LockDueRow) []store.Candidate {
	candidates := make([]store.Candidate, len(rows))
	for i, r := range rows {
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

// ringOf returns the ring of an alarm that was taken. Before TakeOnce none is in doubt.
func ringOf(a *clock.Alarm, r *store.ClaimRequest) clock.Ring {
	return clock.Ring{
		AlarmID: a.ID, Key: a.Key, Shard: a.Shard, Generation: a.Generation, RingNo: a.RingNo + 1, RetryTimes: a.RetryTimes,
		RingAt: a.RingAt, LatestRingAt: a.LatestRingAt, RungAt: r.Now, ClaimID: r.ClaimID, Payload: a.Payload,
		PayloadKind: a.PayloadKind, ContentType: a.ContentType, Retry: a.Retry, AckTimeout: a.AckTimeout, MaxRings: a.MaxRings,
		Priority: a.Priority, Delivery: a.Delivery, Traceparent: a.Traceparent, InDoubt: a.InDoubt && !r.Once,
	}
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
		for i := range fates {
			w := store.Settled(&c.rings[i], &c.before[i], &fates[i])
			held, err := c.settle(ctx, tx, i, &w, now)
			if err != nil {
				return err
			}
			if !held {
				continue
			}
			if err := tx.addAttempts(ctx, store.Attempts(c.rings[i:i+1], c.before[i:i+1], fates[i:i+1], now)); err != nil {
				return err
			}
		}
		return nil
	})
	return c.s.mapError(ctx, "settle", err)
}

// settle writes the row of ring i and reports whether the claim still held it.
func (c *settler) settle(ctx context.Context, tx *writeTx, i int, w *store.Settlement, updated clock.Instant) (held bool, err error) {
	left := store.LeftBy(&c.request, &c.before[i])
	n, err := tx.q.SettleAlarms(ctx, tx, dbsqlc.SettleAlarmsParams{
		State: int64(w.State), NextTryTime: store.ToNull(w.NextTryTime), RingNo: int64(w.RingNo), RetryTimes: int64(w.RetryTimes),
		LastError: w.LastError, InDoubt: flag(w.InDoubt), ClaimID: w.ClaimID, RungAt: store.ToNull(w.RungAt),
		UpdateTime: int64(updated), FinishedAt: store.ToNull(w.FinishedAt),
		ID: w.ID, Generation: w.Generation, HeldState: int64(left.State), HeldClaimID: left.ClaimID,
		HeldNextTryTime: store.ToNull(left.NextTryTime), HeldRungAt: store.ToNull(left.RungAt),
	})
	return n == 1, err
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
	err := c.s.write(ctx, func(tx *writeTx) error {
		for i := range c.rings {
			w := store.Undone(&c.rings[i], &c.before[i])
			if _, err := c.settle(ctx, tx, i, &w, c.before[i].UpdateTime); err != nil {
				return err
			}
		}
		return nil
	})
	return c.s.mapError(ctx, "release", err)
}
