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

// LockDue reads the due rows (LockDue). The transaction holds the file's lock, so no other transaction changes them. It
// leaves out payloads longer than engine.InlineBytes.
func (t *claimTx) LockDue(ctx context.Context, ids []int64) ([]engine.DueRow, error) {
	found, err := t.q.LockDue(ctx, t,
		dbsqlc.LockDueParams{InlineBytes: engine.InlineBytes, Ids: jsonNumbers(ids), Now: int64(t.request.Now)})
	if err != nil {
		return nil, err
	}
	rows := make([]engine.DueRow, len(found))
	for i := range found {
		if rows[i], _, err = engine.ReadDue(string(found[i])); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Clock returns the machine's clock.
func (t *claimTx) Clock() clock.Instant { return clock.Instant(time.Now().UnixMilli()) }

// EndAlarms writes the ended alarms one by one (EndAlarms).
func (t *claimTx) EndAlarms(ctx context.Context, judged *store.Judgment) error {
	for i := range judged.Ended {
		e := &judged.Ended[i]
		n, err := t.q.EndAlarms(ctx, t, dbsqlc.EndAlarmsParams{
			InDoubt: engine.Bit(e.Fate.InDoubt), State: int64(e.Fate.State), LastError: e.Fate.LastError,
			Now: int64(t.request.Now), ID: e.ID,
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

// Take takes the rows (TakeOnce or TakeTwoPhase), and reads the payloads that LockDue left out (ListPayloads).
func (t *claimTx) Take(ctx context.Context, rows []*engine.DueRow) (int, error) {
	n, err := t.take(ctx, jsonNumbers(engine.Column(rows, idOfDue)))
	if err != nil || n != len(rows) {
		return n, err
	}
	return n, engine.AddLongPayloads(rows, func(long []*engine.DueRow) ([]engine.PayloadRow, error) {
		found, err := t.q.ListPayloads(ctx, t, jsonNumbers(engine.Column(long, idOfDue)))
		return engine.Column(found, func(r *dbsqlc.ListPayloadsRow) engine.PayloadRow { return engine.PayloadRow(*r) }), err
	})
}

func idOfDue(r **engine.DueRow) int64 { return (*r).ID }

func (t *claimTx) take(ctx context.Context, ids string) (int, error) {
	now := int64(t.request.Now)
	if t.request.Kind() == store.Once {
		n, err := t.q.TakeOnce(ctx, t, dbsqlc.TakeOnceParams{ClaimID: t.request.ClaimID, Now: now, Ids: ids})
		return int(n), err
	}
	n, err := t.q.TakeTwoPhase(ctx, t, dbsqlc.TakeTwoPhaseParams{
		ClaimEnd: int64(t.request.ClaimEnd()), DoubtTarget: int64(t.request.Target), Now: now, Ids: ids,
	})
	return int(n), err
}
