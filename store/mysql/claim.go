package mysql

import (
	"cmp"
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

var _ engine.HoldingTx = (*claimTx)(nil)

// claimTx is the transaction of a claim, or of its settlement.
type claimTx struct {
	*tx
	d         *Driver
	request   *store.ClaimRequest
	clock     clock.Instant // server's clock when LockDue began
	committed bool          // the transaction settles a claim that has committed, so the rows are not locked yet
}

// BeginClaim begins the transaction of a claim. The statements check the build level.
func (d *Driver) BeginClaim(ctx context.Context, r *store.ClaimRequest) (engine.ClaimTx, error) {
	pool := d.rings
	if r.EndOnly {
		pool = d.upkeep
	}
	t, err := d.begin(ctx, pool)
	if err != nil {
		return nil, err
	}
	return &claimTx{tx: t, d: d, request: r}, nil
}

// TakeFresh takes no row, because an UPDATE does not return the rows that it changes.
func (t *claimTx) TakeFresh(context.Context, int) ([]engine.DueRow, error) { return nil, nil }

// Clock returns the server's clock when LockDue began.
func (t *claimTx) Clock() clock.Instant { return t.clock }

// LockDue locks the rows, and does not wait for any (LockDue). It leaves out payloads longer than engine.InlineBytes.
func (t *claimTx) LockDue(ctx context.Context, ids []int64) ([]engine.DueRow, error) {
	found, err := lockFree(t.d.known(), t, ids, cmp.Compare[int64], func(db dbsqlc.DBTX, part []int64) ([]string, error) {
		return t.d.q.LockDue(ctx, db,
			dbsqlc.LockDueParams{InlineBytes: engine.InlineBytes, Ids: part, Now: int64(t.request.Now),
				Build: store.BuildLevel()})
	})
	if err != nil {
		return nil, err
	}
	rows := make([]engine.DueRow, len(found))
	for i := len(found) - 1; i >= 0; i-- { // the first row has the earliest clock
		if rows[i], t.clock, err = engine.ReadDue(found[i]); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// EndAlarms writes the ended alarms and their attempts (ExpireAlarms, KillAlarms, KillUnreadable,
// NoteAttention).
func (t *claimTx) EndAlarms(ctx context.Context, judged *store.Judgment) error {
	var expired, dead []int64
	var ofExpired, ofDead []any // generations, as generationText gives them
	var unreadable []*store.Ending
	for i := range judged.Ended {
		switch e := &judged.Ended[i]; e.Fate.Outcome.Kind {
		case clock.TooLate:
			expired, ofExpired = append(expired, e.ID), append(ofExpired, generationText(e.ID, e.Generation))
		case clock.Unreadable:
			unreadable = append(unreadable, e)
		default:
			dead, ofDead = append(dead, e.ID), append(ofDead, generationText(e.ID, e.Generation))
		}
	}
	now := int64(t.request.Now)
	n, err := t.d.expireAlarms(ctx, t.tx, t.request.Now, expired, ofExpired)
	if err == nil && len(dead) > 0 {
		var m int64
		m, err = t.d.q.KillAlarms(ctx, lastRepeated{DBTX: t, values: ofDead},
			dbsqlc.KillAlarmsParams{Now: now, Ids: dead})
		n += m
	}
	for i := 0; err == nil && i < len(unreadable); i++ {
		var m int64
		e := unreadable[i]
		m, err = t.d.q.KillUnreadable(ctx, t,
			dbsqlc.KillUnreadableParams{Reason: e.Fate.LastError, Now: now, ID: e.ID, Generation: e.Generation})
		n += m
	}
	if err == nil && int(n) != len(judged.Ended) {
		return engine.ErrReplay // another transaction changed locked rows: the server ignores SKIP LOCKED
	}
	if err != nil {
		return err
	}
	ended := engine.Column(judged.Ended, func(e *store.Ending) int64 { return e.ID })
	if err := t.d.noteAttention(ctx, t.tx, ended); err != nil || len(judged.Attempts) == 0 {
		return err
	}
	return t.d.addAttempts(ctx, t.tx, judged.Attempts)
}

func (d *Driver) expireAlarms(
	ctx context.Context, t *tx, now clock.Instant, ids []int64, generations []any,
) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	return d.q.ExpireAlarms(ctx, lastRepeated{DBTX: t, values: generations}, dbsqlc.ExpireAlarmsParams{
		Doubt: clock.ReasonInDoubt, Unacknowledged: clock.ReasonUnacknowledged, Reason: clock.ReasonExpired,
		Now: int64(now), Ids: ids,
	})
}

// Take takes the rows (TakeHeld, TakeTwoPhase, TakeOnce), and reads the payloads that LockDue left out (ListPayloads).
func (t *claimTx) Take(ctx context.Context, rows []*engine.DueRow) (int, error) {
	n, err := t.take(ctx, rows)
	if err != nil || n != len(rows) {
		return n, err
	}
	return n, engine.AddLongPayloads(rows, func(long []*engine.DueRow) ([]engine.PayloadRow, error) {
		found, err := t.d.q.ListPayloads(ctx, t, engine.Column(long, idOfDue))
		return engine.Column(found, func(r *dbsqlc.ListPayloadsRow) engine.PayloadRow { return engine.PayloadRow(*r) }), err
	})
}

// take runs the conditional UPDATE that decides the claim. It changes only the row versions that LockDue read: on a
// server that ignores locks another transaction may have changed a row since.
func (t *claimTx) take(ctx context.Context, rows []*engine.DueRow) (int, error) {
	q, r, now, v := t.d.q, t.request, int64(t.request.Now), versionsOf(rows)
	db, common := lastRepeated{DBTX: t, values: v.texts}, &v.common
	var n int64
	var err error
	switch r.Kind() {
	case store.Once:
		n, err = q.TakeOnce(ctx, db, dbsqlc.TakeOnceParams{
			Build:   store.BuildLevel(),
			ClaimID: r.ClaimID, Now: now, Ids: v.ids, Generation: common.generation, OldState: common.state,
			RingNo: common.ringNo, RetryTimes: common.retryTimes,
			OldInDoubt: common.inDoubt, Unrung: common.unrung, Others: v.others,
		})
	case store.TwoPhase:
		n, err = q.TakeTwoPhase(ctx, db, dbsqlc.TakeTwoPhaseParams{
			Build:    store.BuildLevel(),
			ClaimEnd: int64(r.ClaimEnd()), DoubtTarget: int64(r.Target), Now: now, Ids: v.ids,
			Generation: common.generation, OldState: common.state, RingNo: common.ringNo,
			RetryTimes: common.retryTimes, OldInDoubt: common.inDoubt, Unrung: common.unrung, Others: v.others,
		})
	default:
		n, err = q.TakeHeld(ctx, db, dbsqlc.TakeHeldParams{
			Build: store.BuildLevel(),
			Now:   now, ClaimID: r.ClaimID, Ids: v.ids, Generation: common.generation, OldState: common.state,
			RingNo: common.ringNo, RetryTimes: common.retryTimes,
			OldInDoubt: common.inDoubt, Unrung: common.unrung, Others: v.others,
		})
	}
	return int(n), err
}

// CommitAndBegin commits and begins the next transaction.
func (t *claimTx) CommitAndBegin(ctx context.Context) error { return t.commitAndBegin(ctx) }

// RollbackAndBegin releases the locks and begins the next transaction.
func (t *claimTx) RollbackAndBegin(ctx context.Context) error { return t.rollbackAndBegin(ctx) }

func idOfDue(r **engine.DueRow) int64 { return (*r).ID }
