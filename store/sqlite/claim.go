package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

var _ engine.ClaimTx = (*claimTx)(nil)

// claimTx is the transaction of a claim, or of its settlement.
type claimTx struct {
	*writeTx
	request *store.ClaimRequest
}

// BeginClaim begins the transaction of a claim.
func (d *Driver) BeginClaim(ctx context.Context, r *store.ClaimRequest) (engine.ClaimTx, error) {
	t, err := d.beginGuarded(ctx)
	if err != nil {
		return nil, err
	}
	return &claimTx{writeTx: t, request: r}, nil
}

// LockDue reads the due rows (LockDue). The transaction holds the file's lock, so no other transaction changes them.
func (t *claimTx) LockDue(ctx context.Context, ids []int64) ([]engine.DueRow, error) {
	rows, err := t.q.LockDue(ctx, t, dbsqlc.LockDueParams{Ids: jsonNumbers(ids), Now: int64(t.request.Now)})
	return engine.DueRows(rows, func(r dbsqlc.LockDueRow) engine.DueColumns { return engine.DueColumns(r) }), err
}

// Clock returns the machine's clock.
func (t *claimTx) Clock() clock.Instant { return clock.Instant(time.Now().UnixMilli()) }

// EndAlarms writes the ended alarms one by one (EndAlarms).
func (t *claimTx) EndAlarms(ctx context.Context, judged *store.Judgment) error {
	for i := range judged.Ended {
		e := &judged.Ended[i]
		n, err := t.q.EndAlarms(ctx, t, dbsqlc.EndAlarmsParams{
			InDoubt: engine.Bit(e.Fate.InDoubt), State: int64(e.Fate.State), LastError: e.Fate.LastError, Now: int64(t.request.Now), ID: e.ID,
		})
		if err != nil {
			return err
		}
		if n != 1 {
			return fmt.Errorf("end alarm %d: %w", e.ID, engine.ErrReplay)
		}
	}
	return t.addAttempts(ctx, judged.Attempts)
}

// Take takes the rows and reads their payloads in one statement (TakeOnce or TakeTwoPhase).
func (t *claimTx) Take(ctx context.Context, rows []*engine.DueRow) (int, error) {
	ids := jsonNumbers(engine.Column(rows, func(r **engine.DueRow) int64 { return (*r).ID }))
	now := int64(t.request.Now)
	if t.request.Kind() == store.Once {
		taken, err := t.q.TakeOnce(ctx, t, dbsqlc.TakeOnceParams{ClaimID: t.request.ClaimID, Now: now, Ids: ids})
		return engine.SetPayloads(rows, taken, func(r dbsqlc.TakeOnceRow) engine.PayloadRow { return engine.PayloadRow(r) }), err
	}
	taken, err := t.q.TakeTwoPhase(ctx, t, dbsqlc.TakeTwoPhaseParams{ClaimEnd: int64(t.request.ClaimEnd()), Now: now, Ids: ids})
	return engine.SetPayloads(rows, taken, func(r dbsqlc.TakeTwoPhaseRow) engine.PayloadRow { return engine.PayloadRow(r) }), err
}
