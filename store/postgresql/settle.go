package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/citussqlc"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// BeginSettle begins a transaction that settles a committed claim (two-phase or at most once), or awaited rings. BEGIN,
// its statements and COMMIT travel in one round trip.
func (d *Driver) BeginSettle(ctx context.Context, r *store.ClaimRequest) (engine.SettleTx, error) {
	t, err := begin(ctx, d.rings, d.ringLockWait())
	if err != nil {
		return nil, err
	}
	settling := d.newClaimTx(t, r)
	for _, statement := range t.setup {
		settling.waiting.Queue(statement)
	}
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

// Settle queues the statements that write the rows and the attempts (SettleAlarms, PruneAttempts). SettleAlarms adds
// the attempts of the rows that it changes.
func (t *claimTx) Settle(ctx context.Context, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	params := settleParams(settled, attempts)
	params.ClaimedAt = int64(settled[0].Claimed.UpdateTime)
	if t.shards != nil {
		return t.settleDistributed(ctx, &params, attempts)
	}
	if err := t.q.SettleAlarms(ctx, &t.waiting, params); err != nil || len(attempts) == 0 {
		return err
	}
	return t.d.prune(ctx, &t.waiting, attempts)
}

// endDistributed is EndAlarms in a distributed database: the attempts need a statement of their own (EndAlarms,
// InsertAttempts, PruneAttempts).
func (t *claimTx) endDistributed(ctx context.Context, p *dbsqlc.EndAlarmsParams, attempts []store.AlarmAttempt) error {
	err := t.d.distributed.EndAlarms(ctx, &t.waiting, citussqlc.EndAlarmsParams{
		Now: p.Now, Ids: p.Ids, Generations: p.Generations, NextTryTimes: p.NextTryTimes, UpdateTimes: p.UpdateTimes,
		States:     p.States,
		LastErrors: p.LastErrors, InDoubts: p.InDoubts,
	})
	if err != nil {
		return err
	}
	return t.d.addDistributedAttempts(ctx, &t.waiting, attempts)
}

// settleDistributed is Settle in a distributed database (SettleAlarms, InsertAttempts, PruneAttempts).
func (t *claimTx) settleDistributed(
	ctx context.Context, p *dbsqlc.SettleAlarmsParams, attempts []store.AlarmAttempt,
) error {
	err := t.d.distributed.SettleAlarms(ctx, &t.waiting, citussqlc.SettleAlarmsParams{
		Ids: p.Ids, Generations: p.Generations, ClaimedStates: p.ClaimedStates,
		ClaimedNextTryTimes: p.ClaimedNextTryTimes,
		ClaimedRungAts:      p.ClaimedRungAts, ClaimedClaimIds: p.ClaimedClaimIds, States: p.States,
		NextTryTimes: p.NextTryTimes,
		RingNos:      p.RingNos, RetryTimes: p.RetryTimes, LastErrors: p.LastErrors, InDoubts: p.InDoubts,
		ClaimIds: p.ClaimIds, RungAts: p.RungAts,
		UpdateTimes: p.UpdateTimes, FinishedAts: p.FinishedAts, DoubtTargets: p.DoubtTargets,
		RepeatStates: p.RepeatStates, ClaimedAt: p.ClaimedAt,
	})
	if err != nil {
		return err
	}
	return t.d.addDistributedAttempts(ctx, &t.waiting, attempts)
}

// addAttempts adds attempts and keeps only the newest attempts of each alarm (InsertAttempts, PruneAttempts).
func (d *Driver) addAttempts(ctx context.Context, t *tx, attempts []store.AlarmAttempt) error {
	if t.shards != nil {
		return d.addDistributedAttempts(ctx, t, attempts)
	}
	if len(attempts) == 0 {
		return nil
	}
	if err := d.q.InsertAttempts(ctx, t, attemptParams(attempts)); err != nil {
		return err
	}
	return d.prune(ctx, t, attempts)
}

// prune keeps only the newest attempts of each alarm (PruneAttempts).
func (d *Driver) prune(ctx context.Context, db dbsqlc.DBTX, attempts []store.AlarmAttempt) error {
	return d.q.PruneAttempts(ctx, db,
		dbsqlc.PruneAttemptsParams{AlarmIds: engine.Column(attempts, idOfAttempted), Kept: clock.MaxAttempts})
}

// addDistributedAttempts adds attempts of alarms that the transaction has changed, and keeps only the newest attempts
// of each alarm (InsertAttempts, PruneAttempts).
func (d *Driver) addDistributedAttempts(ctx context.Context, db dbsqlc.DBTX, attempts []store.AlarmAttempt) error {
	if len(attempts) == 0 {
		return nil
	}
	p := attemptParams(attempts)
	if err := d.distributed.InsertAttempts(ctx, db, d.distributedAttempts(&p)); err != nil {
		return err
	}
	return d.distributed.PruneAttempts(ctx, db,
		citussqlc.PruneAttemptsParams{AlarmIds: p.AlarmIds, Kept: clock.MaxAttempts})
}
