package mysql

import (
	"context"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ store.Settler = (*held)(nil)

// Settle writes what became of the rings. The rows of a transactional claim bear the confirmed outcome already: those of
// which it came true need nothing but the COMMIT, and an attempt where nobody answered the ring before.
func (h *held) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	ctx, cancel := h.s.deadline(ctx)
	defer cancel()
	if h.tx == nil {
		return h.settleCommitted(ctx, now, fates)
	}
	var settled []settlement
	for i := range fates {
		if fates[i].Outcome.Kind != clock.Confirmed {
			settled = append(settled, settlement{store.Settled(&h.rings[i], &h.before[i], &fates[i]), now})
		}
	}
	if err := h.s.settle(ctx, h.tx, settled, store.Attempts(h.rings, h.before, fates, now)); err != nil {
		h.tx.rollback(ctx)
		return h.s.mapError("settle", err)
	}
	return h.s.mapError("settle", h.tx.commit(ctx))
}

// settleCommitted writes the rows that are still as the claim left them; the others were claimed again after its end, or set anew.
func (h *held) settleCommitted(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	all := store.Attempts(h.rings, h.before, fates, now)
	finishes := !h.Once && len(all) == 0 && store.AllConfirmed(fates)
	return h.s.transact(ctx, h.s.rings, "settle", func(t *tx, _ bool) error {
		if finishes {
			return h.finish(ctx, t, now)
		}
		ours, err := h.lockCommitted(ctx, t)
		if err != nil {
			return err
		}
		var settled []settlement
		for i := range fates {
			if ours[h.rings[i].AlarmID] {
				settled = append(settled, settlement{store.Settled(&h.rings[i], &h.before[i], &fates[i]), now})
			}
		}
		var attempts []store.Attempted
		for _, a := range all {
			if ours[a.AlarmID] {
				attempts = append(attempts, a)
			}
		}
		return h.s.settle(ctx, t, settled, attempts)
	})
}

// finish writes the confirmed outcome of a two-phase claim, a statement for each generation, of which there are few (FinishAlarms).
func (h *held) finish(ctx context.Context, t *tx, now clock.Instant) error {
	ids := make(map[int64][]int64) // by generation
	for i := range h.rings {
		r := &h.rings[i]
		ids[r.Generation] = append(ids[r.Generation], r.AlarmID)
	}
	for _, generation := range slices.Sorted(maps.Keys(ids)) {
		_, err := h.s.q.FinishAlarms(ctx, t, dbsqlc.FinishAlarmsParams{
			RungAt: int64(h.Now), ClaimID: h.ClaimID, Now: int64(now), Ids: ids[generation], Generation: generation,
			ClaimEnd: int64(h.LeaseEnd()),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Release gives the rings back: a rollback, or what the rows were before.
func (h *held) Release(ctx context.Context) error {
	ctx, cancel := h.s.deadline(ctx)
	defer cancel()
	if h.tx != nil {
		h.tx.rollback(ctx)
		return nil
	}
	return h.s.transact(ctx, h.s.rings, "release", func(t *tx, _ bool) error {
		ours, err := h.lockCommitted(ctx, t)
		if err != nil {
			return err
		}
		var settled []settlement
		for i := range h.rings {
			if ours[h.rings[i].AlarmID] {
				settled = append(settled, settlement{store.Undone(&h.rings[i], &h.before[i]), h.before[i].UpdateTime})
			}
		}
		return h.s.settle(ctx, t, settled, nil)
	})
}

// lockCommitted locks the rows that are still as a two-phase claim left them.
func (h *held) lockCommitted(ctx context.Context, t *tx) (map[int64]bool, error) {
	ids := idsOf(h.rings, func(r *clock.Ring) int64 { return r.AlarmID })
	var found []int64
	var err error
	if h.Once {
		found, err = h.s.q.LockOnce(ctx, t, dbsqlc.LockOnceParams{Ids: ids, ClaimID: h.ClaimID})
	} else {
		found, err = h.s.q.LockLeased(ctx, t, dbsqlc.LockLeasedParams{Ids: ids, ClaimEnd: int64(h.LeaseEnd())})
	}
	ours := make(map[int64]bool, len(found))
	for _, id := range found {
		ours[id] = true
	}
	return ours, err
}

// settlement is a store.Settlement with the update_time to be written.
type settlement struct {
	store.Settlement
	updateTime clock.Instant
}

// settle writes rows that are locked, and the attempts, of which it keeps the newest (SettleAlarms, InsertAttempts,
// ListExcessAttempts, DeleteAttempts).
func (s *Store) settle(ctx context.Context, t *tx, settled []settlement, attempts []store.Attempted) error {
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

func (s *Store) addAttempts(ctx context.Context, t *tx, attempts []store.Attempted) error {
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
	of := idsOf(attempts, func(a *store.Attempted) int64 { return a.AlarmID })
	for {
		excess, err := s.q.ListExcessAttempts(ctx, t, dbsqlc.ListExcessAttemptsParams{AlarmIds: of, Kept: clock.MaxAttempts})
		if err != nil || len(excess) == 0 {
			return err
		}
		if err := s.q.DeleteAttempts(ctx, t, excess); err != nil {
			return err
		}
	}
}

// inChunks calls do for consecutive ranges of rows that hold no payload.
func (s *Store) inChunks(n int, do func(from, to int) error) error {
	const size = 2048 // a reason of 500 bytes, escaped, and the rest
	return chunks(n, s.known().maxStatement(), func(int) int { return size }, do)
}

// appendSettled adds the arguments of SettleAlarms; there -1, which NoInstant is, stands for NULL.
func appendSettled(args []any, s *settlement) []any {
	return append(args, s.ID, s.Generation, int64(s.State), int64(s.NextTryTime), int64(s.RingNo), int64(s.RetryTimes), s.LastError,
		bit(s.InDoubt), s.ClaimID, int64(s.RungAt), int64(s.updateTime), int64(s.FinishedAt))
}

// appendAttempt adds the arguments of InsertAttempts.
func appendAttempt(args []any, a *store.Attempted) []any {
	return append(args, a.AlarmID, a.Generation, int64(a.RingNo), a.ClaimID, int64(a.Time), int64(a.Outcome), a.Error, a.By)
}
