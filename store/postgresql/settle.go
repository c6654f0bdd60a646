package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// BeginSettle begins a transaction that settles a committed claim (two-phase or at most once), or awaited rings. BEGIN, its statements and
// COMMIT travel in one round trip.
func (d *Driver) BeginSettle(ctx context.Context, r *store.ClaimRequest) (engine.SettleTx, error) {
	t, err := begin(ctx, d.rings, 0)
	if err != nil {
		return nil, err
	}
	settling := &claimTx{tx: t, q: d.q, request: r}
	settling.waiting.Queue(sqlBegin)
	return settling, nil
}

// Confirm queues the statement that writes the confirmed rows (ConfirmAlarms).
func (t *claimTx) Confirm(ctx context.Context, rings []clock.Ring) error {
	return t.q.ConfirmAlarms(ctx, &t.waiting, dbsqlc.ConfirmAlarmsParams{
		RungAt: int64(t.request.Now), ClaimID: t.request.ClaimID, ClaimEnd: int64(t.request.ClaimEnd()),
		Ids:         engine.Column(rings, func(r *clock.Ring) int64 { return r.AlarmID }),
		Generations: engine.Column(rings, func(r *clock.Ring) int64 { return r.Generation }),
	})
}

// Settle queues the statements that write the rows and the attempts (SettleAlarms, PruneAttempts). SettleAlarms adds the attempts of the
// rows that it changes.
func (t *claimTx) Settle(ctx context.Context, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	params := settleParams(settled, attempts)
	params.ClaimedAt = int64(settled[0].Claimed.UpdateTime)
	if err := t.q.SettleAlarms(ctx, &t.waiting, params); err != nil || len(attempts) == 0 {
		return err
	}
	return prune(ctx, t.q, &t.waiting, attempts)
}

// addAttempts adds attempts and keeps only the newest attempts of each alarm (InsertAttempts, PruneAttempts).
func addAttempts(ctx context.Context, q *dbsqlc.Queries, db dbsqlc.DBTX, attempts []store.AlarmAttempt) error {
	if len(attempts) == 0 {
		return nil
	}
	if err := q.InsertAttempts(ctx, db, attemptParams(attempts)); err != nil {
		return err
	}
	return prune(ctx, q, db, attempts)
}

func prune(ctx context.Context, q *dbsqlc.Queries, db dbsqlc.DBTX, attempts []store.AlarmAttempt) error {
	return q.PruneAttempts(ctx, db, dbsqlc.PruneAttemptsParams{AlarmIds: engine.Column(attempts, idOfAttempted), Kept: clock.MaxAttempts})
}
