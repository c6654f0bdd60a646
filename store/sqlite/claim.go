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

// errHeld refuses a claim that would hold the only writer.
var errHeld = errors.New("sqlite: a claim without a lease would hold the only writer")

// Claim takes what is due, in two phases: the claim is committed here (LockDue, EndAlarms, LeaseAlarms).
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	if r.Lease <= 0 {
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
		taken, c.Ended, c.Left = judged.Taken, judged.Ended, judged.Left
		if err := s.end(ctx, tx, r.Now, c.Ended); err != nil {
			return err
		}
		c.Rings, err = s.lease(ctx, tx, r, taken)
		return err
	})
	if err != nil {
		return nil, s.mapError(ctx, "claim", err)
	}
	if len(c.Rings) > 0 {
		c.Settler = &settler{s: s, end: r.Now.Add(r.Lease), rings: c.Rings, before: taken}
	}
	return c, nil
}

// end writes those that cannot ring any more.
func (s *Store) end(ctx context.Context, tx *writeTx, now clock.Instant, ended []store.Ended) error {
	for _, e := range ended {
		n, err := s.q.EndAlarms(ctx, tx, dbsqlc.EndAlarmsParams{State: int64(e.State), Reason: e.Reason, Now: int64(now), ID: e.ID})
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("end alarm %d: %w", e.ID, store.ErrReplay)
		}
	}
	return nil
}

// lease takes the candidates and returns their rings, in the same order.
func (s *Store) lease(ctx context.Context, tx *writeTx, r store.ClaimRequest, taken []store.Candidate) ([]clock.Ring, error) {
	if len(taken) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(taken))
	for i := range taken {
		ids[i] = taken[i].ID
	}
	rows, err := s.q.LeaseAlarms(ctx, tx, dbsqlc.LeaseAlarmsParams{ClaimEnd: int64(r.Now.Add(r.Lease)), Now: int64(r.Now), Ids: list(ids)})
	if err != nil {
		return nil, err
	}
	if len(rows) != len(taken) {
		return nil, fmt.Errorf("%d of %d rows leased: %w", len(rows), len(taken), store.ErrReplay)
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

func candidatesOf(rows []dbsqlc.LockDueRow) []store.Candidate {
	candidates := make([]store.Candidate, len(rows))
	for i, r := range rows {
		candidates[i] = store.Candidate{
			ID: r.ID, Key: clock.Key{Application: r.Application, BusinessID: r.BusinessID}, State: clock.State(r.State),
			RingNo: int(r.RingNo), MaxRings: int(r.MaxRings), AckTimeout: time.Duration(r.AckTimeout) * time.Millisecond,
			LatestRingAt: store.FromNull(r.LatestRingAt), NextTryTime: store.FromNull(r.NextTryTime), LastError: r.LastError,
			InDoubt: r.InDoubt != 0, ClaimID: r.ClaimID, RungAt: store.FromNull(r.RungAt), UpdateTime: clock.Instant(r.UpdateTime),
			PayloadLength: int(r.PayloadLength),
		}
	}
	return candidates
}

// ringOf returns the ring of a leased alarm.
func ringOf(a *clock.Alarm, r *store.ClaimRequest) clock.Ring {
	return clock.Ring{
		AlarmID: a.ID, Key: a.Key, Shard: a.Shard, Generation: a.Generation, RingNo: a.RingNo + 1, RetryTimes: a.RetryTimes,
		RingAt: a.RingAt, LatestRingAt: a.LatestRingAt, RungAt: r.Now, ClaimID: r.ClaimID, Payload: a.Payload,
		PayloadKind: a.PayloadKind, ContentType: a.ContentType, Retry: a.Retry, AckTimeout: a.AckTimeout, MaxRings: a.MaxRings,
		Priority: a.Priority, Traceparent: a.Traceparent, InDoubt: a.InDoubt,
	}
}

// settler finishes a two-phase claim.
type settler struct {
	s      *Store
	end    clock.Instant // of the claim; its rows bear it as next_try_time
	rings  []clock.Ring
	before []store.Candidate // the rows as they were, one a ring
}

// Settle writes the fates in a transaction of its own, passing over rows that the claim has lost (SettleAlarms,
// InsertAttempts, PruneAttempts).
func (c *settler) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	err := c.s.write(ctx, func(tx *writeTx) error {
		for i := range fates {
			w := store.Settled(&c.rings[i], &c.before[i], &fates[i])
			held, err := c.settle(ctx, tx, &w, now)
			if err != nil {
				return err
			}
			if !held {
				continue
			}
			if err := c.attempt(ctx, tx, store.Attempts(c.rings[i:i+1], fates[i:i+1], now)); err != nil {
				return err
			}
		}
		return nil
	})
	return c.s.mapError(ctx, "settle", err)
}

// settle writes one row and reports whether the claim still held it.
func (c *settler) settle(ctx context.Context, tx *writeTx, w *store.Settlement, updated clock.Instant) (held bool, err error) {
	n, err := tx.q.SettleAlarms(ctx, tx, dbsqlc.SettleAlarmsParams{
		State: int64(w.State), NextTryTime: store.ToNull(w.NextTryTime), RingNo: int64(w.RingNo), RetryTimes: int64(w.RetryTimes),
		LastError: w.LastError, InDoubt: flag(w.InDoubt), ClaimID: w.ClaimID, RungAt: store.ToNull(w.RungAt),
		UpdateTime: int64(updated), FinishedAt: store.ToNull(w.FinishedAt),
		ID: w.ID, Generation: w.Generation, ClaimEnd: int64(c.end),
	})
	return n == 1, err
}

// attempt adds the attempts of one alarm and prunes them.
func (c *settler) attempt(ctx context.Context, tx *writeTx, attempts []store.Attempted) error {
	for _, a := range attempts {
		err := tx.q.InsertAttempts(ctx, tx, dbsqlc.InsertAttemptsParams{
			AlarmID: a.AlarmID, Generation: a.Generation, RingNo: int64(a.RingNo), ClaimID: a.ClaimID, AttemptTime: int64(a.Time),
			Outcome: int64(a.Outcome), Error: a.Error,
		})
		if err != nil {
			return err
		}
		if err := tx.q.PruneAttempts(ctx, tx, dbsqlc.PruneAttemptsParams{AlarmID: a.AlarmID, Kept: clock.MaxAttempts}); err != nil {
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
			r, b := &c.rings[i], &c.before[i]
			w := store.Settlement{
				ID: r.AlarmID, Generation: r.Generation, State: b.State, NextTryTime: b.NextTryTime, RingNo: b.RingNo,
				RetryTimes: r.RetryTimes, InDoubt: b.InDoubt, ClaimID: b.ClaimID, RungAt: b.RungAt, FinishedAt: clock.NoInstant,
			}
			if _, err := c.settle(ctx, tx, &w, b.UpdateTime); err != nil {
				return err
			}
		}
		return nil
	})
	return c.s.mapError(ctx, "release", err)
}
