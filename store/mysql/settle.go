package mysql

import (
	"context"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ store.Settler = (*claim)(nil)

// Settle writes the rows whose fate differs from the row that the claim wrote, and the attempts. A confirmed ring of a held claim needs
// only the COMMIT, and an attempt if the ring before it was not acknowledged.
func (c *claim) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	ctx, cancel := c.s.deadline(ctx)
	defer cancel()
	attempts := store.FateAttempts(c.rings, fates, now)
	if c.FinishesAtOnce(c.rings, fates, attempts) {
		return c.s.transact(ctx, c.s.rings, "settle", func(t *tx, _ bool) error { return c.finish(ctx, t) })
	}
	settled := c.Settlements(c.rings, fates, nil)
	if c.tx == nil {
		return c.s.transact(ctx, c.s.rings, "settle", func(t *tx, _ bool) error { return c.settleUnchanged(ctx, t, settled, attempts) })
	}
	if err := c.s.settle(ctx, c.tx, settled, attempts); err != nil {
		c.tx.rollback(ctx)
		return c.s.mapError("settle", err)
	}
	return c.s.mapError("settle", c.tx.commit(ctx))
}

// settleUnchanged writes the settlements and attempts of the rows that are still as the two-phase claim left them. Other rows were claimed
// again after the claim's end, or set again.
func (c *claim) settleUnchanged(ctx context.Context, t *tx, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	ours, err := c.lockCommitted(ctx, t)
	if err != nil {
		return err
	}
	var unchanged []store.Settlement
	for i := range settled {
		if ours[settled[i].ID] {
			unchanged = append(unchanged, settled[i])
		}
	}
	return c.s.settle(ctx, t, unchanged, store.AttemptsOf(attempts, ours))
}

// finish writes the confirmed rows of a two-phase claim (FinishAlarms). It takes a statement for each generation; a batch has few of them.
func (c *claim) finish(ctx context.Context, t *tx) error {
	ids := make(map[int64][]int64) // alarm ids by generation
	for i := range c.rings {
		r := &c.rings[i]
		ids[r.Generation] = append(ids[r.Generation], r.AlarmID)
	}
	for _, generation := range slices.Sorted(maps.Keys(ids)) {
		_, err := c.s.q.FinishAlarms(ctx, t, dbsqlc.FinishAlarmsParams{
			RungAt: int64(c.Now), ClaimID: c.ClaimID, Ids: ids[generation], Generation: generation, ClaimEnd: int64(c.LeaseEnd()),
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
		return c.settleUnchanged(ctx, t, c.Restorations(c.rings), nil)
	})
}

// lockCommitted locks the rows that are still as the two-phase claim left them, and returns the set of their ids.
func (c *claim) lockCommitted(ctx context.Context, t *tx) (map[int64]bool, error) {
	ids := engine.Column(c.rings, func(r *clock.Ring) int64 { return r.AlarmID })
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

// settle writes locked rows and adds attempts. It keeps the newest attempts of each row (SettleAlarms, InsertAttempts, ListExcessAttempts,
// DeleteAttempts).
func (d *Driver) settle(ctx context.Context, t *tx, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	err := d.inChunks(len(settled), func(from, to int) error {
		args := make([]any, 0, 12*(to-from))
		for i := range settled[from:to] {
			args = appendSettled(args, &settled[from+i])
		}
		b := bulk{DBTX: t, part: settleRow, rows: to - from, args: args}
		_, err := d.q.SettleAlarms(ctx, b, dbsqlc.SettleAlarmsParams{})
		return err
	})
	if err != nil || len(attempts) == 0 {
		return err
	}
	return d.addAttempts(ctx, t, attempts)
}

func (d *Driver) addAttempts(ctx context.Context, t *tx, attempts []store.AlarmAttempt) error {
	err := d.inChunks(len(attempts), func(from, to int) error {
		args := make([]any, 0, 8*(to-from))
		for i := range attempts[from:to] {
			args = appendAttempt(args, &attempts[from+i])
		}
		b := bulk{DBTX: t, part: attemptTuple, rows: to - from, args: args}
		return d.q.InsertAttempts(ctx, b, dbsqlc.InsertAttemptsParams{})
	})
	if err != nil {
		return err
	}
	alarmIDs := engine.Column(attempts, func(a *store.AlarmAttempt) int64 { return a.AlarmID })
	for {
		excess, err := d.q.ListExcessAttempts(ctx, t, dbsqlc.ListExcessAttemptsParams{AlarmIds: alarmIDs, Kept: clock.MaxAttempts})
		if err != nil || len(excess) == 0 {
			return err
		}
		if err := d.q.DeleteAttempts(ctx, t, excess); err != nil {
			return err
		}
	}
}

// inChunks calls do for consecutive ranges of n rows without payloads.
func (d *Driver) inChunks(n int, do func(from, to int) error) error {
	const size = 2048 // bytes of one row: an escaped reason of 500 bytes, and the other columns
	return chunks(n, d.known().maxStatement(), func(int) int { return size }, do)
}

// appendSettled appends the arguments of SettleAlarms. The statement turns -1, the value of NoInstant, into NULL.
func appendSettled(args []any, s *store.Settlement) []any {
	return append(args, s.ID, s.Generation, int64(s.State), int64(s.NextTryTime), int64(s.RingNo), int64(s.RetryTimes), s.LastError,
		engine.Bit(s.InDoubt), s.ClaimID, int64(s.RungAt), int64(s.UpdateTime), int64(s.FinishedAt))
}

// appendAttempt appends the arguments of InsertAttempts.
func appendAttempt(args []any, a *store.AlarmAttempt) []any {
	return append(args, a.AlarmID, a.Generation, int64(a.RingNo), a.ClaimID, int64(a.Time), int64(a.Outcome), a.Error, a.By)
}
