package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// updateKey selects the rows of one UPDATE: the kind of statement, and the values that all its rows must still have.
// TiDB may not have locked them: without in_doubt and retry_times, the outcome of a ring could be lost.
type updateKey struct {
	kind       clock.Verdict // Replace (also for Rearm), Disarm or Amend
	state      clock.State
	generation int64 // for Disarm only; other kinds check the generation of each row
	inDoubt    bool  // always false for Disarm
	ringNo     int   // for Amend only
	retryTimes int   // for Amend only
}

// Update rewrites the rows. Cancels take one statement for each state and generation (CancelAlarms). Sets take one for
// each state (RewriteAlarms). Answers, resends, kicks, discards, pauses, resumes and recomputations take one for each
// state, ring_no, in_doubt and retry_times (AmendAlarms).
func (w *writeTx) Update(ctx context.Context, changes []engine.Change) (int, error) {
	groups := make(map[updateKey][]engine.Change)
	for _, c := range changes {
		k := updateKeyOf(&c)
		groups[k] = append(groups[k], c)
	}
	changed := 0
	for k, group := range groups {
		n, err := w.update(ctx, k, group)
		if err != nil {
			return changed, err
		}
		changed += n
	}
	if err := w.d.noteChangedAttention(ctx, w.tx, changes); err != nil {
		return changed, err
	}
	if attempts := engine.ChangeAttempts(changes); len(attempts) > 0 {
		return changed, w.d.addAttempts(ctx, w.tx, attempts)
	}
	return changed, nil
}

func updateKeyOf(c *engine.Change) updateKey {
	switch {
	case c.New.Generation != c.Old.Generation:
		return updateKey{kind: clock.Replace, state: c.Old.State, inDoubt: c.Old.InDoubt}
	case c.IsCancel():
		return updateKey{kind: clock.Disarm, state: c.Old.State, generation: c.Old.Generation}
	default:
		return updateKey{kind: clock.Amend, state: c.Old.State, inDoubt: c.Old.InDoubt, ringNo: c.Old.RingNo,
			retryTimes: c.Old.RetryTimes}
	}
}

func (w *writeTx) update(ctx context.Context, k updateKey, group []engine.Change) (int, error) {
	switch k.kind {
	case clock.Disarm:
		return w.cancel(ctx, k, group)
	case clock.Amend:
		return w.amend(ctx, k, group)
	default:
		return w.rewrite(ctx, k, group)
	}
}

func (w *writeTx) cancel(ctx context.Context, k updateKey, group []engine.Change) (int, error) {
	n, err := w.d.q.CancelAlarms(ctx, w.tx, dbsqlc.CancelAlarmsParams{
		Now: int64(group[0].New.UpdateTime), Generation: k.generation, OldState: int64(k.state),
		Ids: engine.Column(group, func(c *engine.Change) int64 { return c.Old.ID }), Build: store.BuildLevel(),
	})
	return int(n), err
}

func (w *writeTx) rewrite(ctx context.Context, k updateKey, group []engine.Change) (int, error) {
	changed := 0
	size := func(i int) int { return sizeOf(group[i].New) }
	err := chunks(len(group), w.server.maxStatement(), size, func(from, to int) error {
		args := rewriteArgs.Of(to-from, func(i int, row *engine.Row) { row.SetAlarm(group[from+i].New) })
		p := dbsqlc.RewriteAlarmsParams{OldState: int64(k.state), NotInDoubt: engine.Bit(!k.inDoubt),
			Build: store.BuildLevel()}
		n, err := w.d.q.RewriteAlarms(ctx, bulk{DBTX: w.tx, rows: to - from, args: args}, p)
		changed += int(n)
		return err
	})
	return changed, err
}

func (w *writeTx) amend(ctx context.Context, k updateKey, group []engine.Change) (int, error) {
	changed := 0
	err := w.d.inChunks(len(group), func(from, to int) error {
		args := amendArgs.Of(to-from, func(i int, row *engine.Row) { row.SetAlarm(group[from+i].New) })
		p := dbsqlc.AmendAlarmsParams{
			OldState: int64(k.state), OldRingNo: int64(k.ringNo), NotInDoubt: engine.Bit(!k.inDoubt),
			OldRetryTimes: int64(k.retryTimes), Build: store.BuildLevel(),
		}
		n, err := w.d.q.AmendAlarms(ctx, bulk{DBTX: w.tx, rows: to - from, args: args}, p)
		changed += int(n)
		return err
	})
	return changed, err
}
