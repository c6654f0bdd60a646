package mysql

import (
	"context"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ store.Settler = (*claim)(nil)

// Settle writes the fate of each ring. The rows of a held claim already contain the confirmed outcome. So a confirmed ring needs only the
// COMMIT, and an attempt if the ring before it was not acknowledged.
func (c *claim) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	if c.tx == nil {
		return c.settleCommitted(ctx, now, fates)
	}
	var settled []settlement
	for i := range fates {
		if fates[i].Outcome.Kind != clock.Confirmed {
			settled = append(settled, settlement{store.RingSettlement(&c.rings[i], &c.before[i], &fates[i]), now})
		}
	}
	if err := c.s.settle(ctx, c.tx, settled, store.FateAttempts(c.rings, c.before, fates, now)); err != nil {
		c.tx.rollback(ctx)
		return c.s.mapError("settle", err)
	}
	return c.s.mapError("settle", c.tx.commit(ctx))
}

// settleCommitted settles a two-phase claim. It writes the rows that are still as the claim left them. Other rows were claimed again after
// the claim's end, or set again.
func (c *claim) settleCommitted(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	all := store.FateAttempts(c.rings, c.before, fates, now)
	finishes := !c.AtMostOnce && len(all) == 0 && store.AllConfirmed(fates)
	return c.s.transact(ctx, c.s.rings, "settle", func(t *tx, _ bool) error {
		if finishes {
			return c.finish(ctx, t, now)
		}
		ours, err := c.lockCommitted(ctx, t)
		if err != nil {
			return err
		}
		var settled []settlement
		for i := range fates {
			if ours[c.rings[i].AlarmID] {
				settled = append(settled, settlement{store.RingSettlement(&c.rings[i], &c.before[i], &fates[i]), now})
			}
		}
		var attempts []store.AlarmAttempt
		for _, a := range all {
			if ours[a.AlarmID] {
				attempts = append(attempts, a)
			}
		}
		return c.s.settle(ctx, t, settled, attempts)
	})
}

// finish writes the confirmed outcome of a two-phase claim (FinishAlarms). It takes a statement for each generation; a batch has few of
// them.
func (c *claim) finish(ctx context.Context, t *tx, now clock.Instant) error {
	ids := make(map[int64][]int64) // alarm ids by generation
	for i := range c.rings {
		r := &c.rings[i]
		ids[r.Generation] = append(ids[r.Generation], r.AlarmID)
	}
	for _, generation := range slices.Sorted(maps.Keys(ids)) {
		_, err := c.s.q.FinishAlarms(ctx, t, dbsqlc.FinishAlarmsParams{
			RungAt: int64(c.Now), ClaimID: c.ClaimID, Now: int64(now), Ids: ids[generation], Generation: generation,
			ClaimEnd: int64(c.LeaseEnd()),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Release gives the rings back. It rolls back a held claim, and restores the rows of a two-phase claim.
func (c *claim) Release(ctx context.Context) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	if c.tx != nil {
		c.tx.rollback(ctx)
		return nil
	}
	return c.s.transact(ctx, c.s.rings, "release", func(t *tx, _ bool) error {
		ours, err := c.lockCommitted(ctx, t)
		if err != nil {
			return err
		}
		var settled []settlement
		for i := range c.rings {
			if ours[c.rings[i].AlarmID] {
				settled = append(settled, settlement{store.ReleaseSettlement(&c.rings[i], &c.before[i]), c.before[i].UpdateTime})
			}
		}
		return c.s.settle(ctx, t, settled, nil)
	})
}

// lockCommitted locks the rows that are still as the two-phase claim left them, and returns the set of their ids.
func (c *claim) lockCommitted(ctx context.Context, t *tx) (map[int64]bool, error) {
	ids := idsOf(c.rings, func(r *clock.Ring) int64 { return r.AlarmID })
	var found []int64
	var err error
	if c.AtMostOnce {
		found, err = c.s.q.LockOnce(ctx, t, dbsqlc.LockOnceParams{Ids: ids, ClaimID: c.ClaimID})
	} else {
		found, err = c.s.q.LockLeased(ctx, t, dbsqlc.LockLeasedParams{Ids: ids, ClaimEnd: int64(c.LeaseEnd())})
	}
	ours := make(map[int64]bool, len(found))
	for _, id := range found {
		ours[id] = true
	}
	return ours, err
}

// settlement is a store.Settlement, and the update_time to be written with it.
type settlement struct {
	store.Settlement
	updateTime clock.Instant
}

// settle writes locked rows and adds attempts. It keeps the newest attempts of each row (SettleAlarms, InsertAttempts, ListExcessAttempts,
// DeleteAttempts).
func (s *Store) settle(ctx context.Context, t *tx, settled []settlement, attempts []store.AlarmAttempt) error {
	err := s.inChunks(len(settled), func(from, to int) error {
		args := make([]any, 0, 12*(to-from))
		for i := range settled[from:to] {
			args = appendSettled(args, &settled[from+i])
		}
		b := bulk{DBTX: t, part: settleRow, rows: to - from, args: args}
		_, err := s.q.SettleAlarms(ctx, b, dbsqlc.SettleAlarmsParams{})
		return err
	})
	if err != nil || len(attempts) == 0 {
		return err
	}
	return s.addAttempts(ctx, t, attempts)
}

func (s *Store) addAttempts(ctx context.Context, t *tx, attempts []store.AlarmAttempt) error {
	err := s.inChunks(len(attempts), func(from, to int) error {
		args := make([]any, 0, 8*(to-from))
		for i := range attempts[from:to] {
			args = appendAttempt(args, &attempts[from+i])
		}
		b := bulk{DBTX: t, part: attemptTuple, rows: to - from, args: args}
		return s.q.InsertAttempts(ctx, b, dbsqlc.InsertAttemptsParams{})
	})
	if err != nil {
		return err
	}
	alarmIDs := idsOf(attempts, func(a *store.AlarmAttempt) int64 { return a.AlarmID })
	for {
		excess, err := s.q.ListExcessAttempts(ctx, t, dbsqlc.ListExcessAttemptsParams{AlarmIds: alarmIDs, Kept: clock.MaxAttempts})
		if err != nil || len(excess) == 0 {
			return err
		}
		if err := s.q.DeleteAttempts(ctx, t, excess); err != nil {
			return err
		}
	}
}

// inChunks calls do for consecutive ranges of n rows without payloads.
func (s *Store) inChunks(n int, do func(from, to int) error) error {
	const size = 2048 // bytes of one row: an escaped reason of 500 bytes, and the other columns
	return chunks(n, s.known().maxStatement(), func(int) int { return size }, do)
}

// appendSettled appends the arguments of SettleAlarms. The statement turns -1, the value of NoInstant, into NULL.
func appendSettled(args []any, s *settlement) []any {
	return append(args, s.ID, s.Generation, int64(s.State), int64(s.NextTryTime), int64(s.RingNo), int64(s.RetryTimes), s.LastError,
		bit(s.InDoubt), s.ClaimID, int64(s.RungAt), int64(s.updateTime), int64(s.FinishedAt))
}

// appendAttempt appends the arguments of InsertAttempts.
func appendAttempt(args []any, a *store.AlarmAttempt) []any {
	return append(args, a.AlarmID, a.Generation, int64(a.RingNo), a.ClaimID, int64(a.Time), int64(a.Outcome), a.Error, a.By)
}
