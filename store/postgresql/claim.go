package postgresql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/citussqlc"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

var _ engine.HoldingTx = (*claimTx)(nil)

// claimTx is the transaction of a claim, or of its settlement. Statements without results travel with COMMIT.
type claimTx struct {
	*tx
	d       *Driver
	q       *dbsqlc.Queries
	request *store.ClaimRequest
	waiting pipeline // statements to be sent with COMMIT
}

// BeginClaim begins the transaction of a claim.
func (d *Driver) BeginClaim(ctx context.Context, r *store.ClaimRequest) (engine.ClaimTx, error) {
	pool := d.rings
	if r.EndOnly {
		pool = d.upkeep
	}
	t, err := beginGuarded(ctx, pool, d.ringLockWait())
	if err != nil {
		return nil, err
	}
	return d.newClaimTx(t, r), nil
}

// newClaimTx returns a claimTx for rows of the placement of the claim's ids.
func (d *Driver) newClaimTx(t *tx, r *store.ClaimRequest) *claimTx {
	t.shards = d.ofPlacedIDs(r.IDs)
	return &claimTx{tx: t, d: d, q: d.q, request: r, waiting: pipeline{shards: t.shards}}
}

// ringLockWait returns the lock wait that each transaction of a claim must set; 0: the session has it. Citus does not
// pass the session's on.
func (d *Driver) ringLockWait() time.Duration {
	if d.cfg.Distributed {
		return ringLockWait
	}
	return 0
}

// prepareClaims prepares the statements of claims and settlements on a new connection. On a slow server, preparing
// takes longer than a claim may last. A claim that prepares them itself would fail and close its connection, and the
// next claim would begin with a new one: no claim would ever succeed. The statements run once, without alarms: then the
// connection prepares them again if a migration changes their results.
func (d *Driver) prepareClaims(ctx context.Context, conn *pgx.Conn) error {
	_, err := d.q.AllowBuild(ctx, conn, store.BuildLevel())
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil // the first claim returns store.ErrOldBuild; a newer schema may not allow the other statements
	case err != nil:
		return fmt.Errorf("check the build: %w", err)
	}
	var p preparation
	if d.cfg.Distributed {
		placed := d.placed.Load()
		if placed == nil {
			return nil // before Identify
		}
		p.shards = placed.placements[rand.N(len(placed.placements))]
	}
	p.Queue(sqlBegin)
	_, _ = d.q.TakeFresh(ctx, &p, dbsqlc.TakeFreshParams{})
	_, _ = d.q.TakeFreshTwoPhase(ctx, &p, dbsqlc.TakeFreshTwoPhaseParams{})
	_, _ = d.q.LockDue(ctx, &p, dbsqlc.LockDueParams{})
	_, _ = d.q.TakeHeld(ctx, &p, dbsqlc.TakeHeldParams{})
	_, _ = d.q.TakeTwoPhase(ctx, &p, dbsqlc.TakeTwoPhaseParams{})
	_, _ = d.q.TakeOnce(ctx, &p, dbsqlc.TakeOnceParams{})
	_ = d.q.ConfirmAlarms(ctx, &p, dbsqlc.ConfirmAlarmsParams{})
	if p.shards == nil {
		_ = d.q.EndAlarms(ctx, &p, dbsqlc.EndAlarmsParams{})
		_ = d.q.SettleAlarms(ctx, &p, dbsqlc.SettleAlarmsParams{})
		_ = d.q.PruneAttempts(ctx, &p, dbsqlc.PruneAttemptsParams{})
	} else {
		_ = d.distributed.EndAlarms(ctx, &p, citussqlc.EndAlarmsParams{})
		_ = d.distributed.SettleAlarms(ctx, &p, citussqlc.SettleAlarmsParams{})
		_ = d.distributed.InsertAttempts(ctx, &p, citussqlc.InsertAttemptsParams{})
		_ = d.distributed.PruneAttempts(ctx, &p, citussqlc.PruneAttemptsParams{})
	}
	p.Queue(sqlCommit)
	err = conn.SendBatch(ctx, &p.Batch).Close()
	if err != nil && d.cfg.Distributed { // the worker may be down, and the claims of the others need the connection
		_, err = conn.Exec(ctx, sqlRollback)
	}
	if err != nil {
		return fmt.Errorf("prepare the statements of claims: %w", err)
	}
	return nil
}

// preparation is a pipeline that takes queries, too. Nobody reads their rows.
type preparation struct{ pipeline }

var errQueued = errors.New("the query is queued")

// Query queues the query.
func (p *preparation) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	_, _ = p.Exec(ctx, sql, args...)
	return nil, errQueued
}

// Clock returns the server's clock as the transaction's first statement read it.
func (t *claimTx) Clock() clock.Instant { return t.clock }

// TakeFresh takes fresh rows (see the package comment) in one statement (TakeFresh, TakeFreshTwoPhase). It waits at
// most ringLockWait for a row that another transaction takes at this moment. After that wait it takes no row.
func (t *claimTx) TakeFresh(ctx context.Context, maxPayload int) ([]engine.DueRow, error) {
	r := t.request
	if r.Kind() == store.TwoPhase {
		taken, err := t.q.TakeFreshTwoPhase(ctx, t, dbsqlc.TakeFreshTwoPhaseParams{
			ClaimEnd: int64(r.ClaimEnd()), DoubtTarget: int64(r.Target), Now: int64(r.Now), Ids: r.IDs,
			MaxPayload: int64(maxPayload),
		})
		return engine.Column(taken, func(row *dbsqlc.TakeFreshTwoPhaseRow) engine.DueRow { return freshRow((*dbsqlc.TakeFreshRow)(row)) }), err
	}
	taken, err := t.q.TakeFresh(ctx, t,
		dbsqlc.TakeFreshParams{Now: int64(r.Now), ClaimID: r.ClaimID, Ids: r.IDs, MaxPayload: int64(maxPayload)})
	return engine.Column(taken, freshRow), err
}

// freshRow returns a row of TakeFresh or TakeFreshTwoPhase as it was before the claim. Columns that the statement does
// not return have one value in every fresh row.
func freshRow(r *dbsqlc.TakeFreshRow) engine.DueRow {
	return engine.DueRow{Payload: r.Payload, DueColumns: engine.DueColumns{
		ID: r.ID, Application: r.Application, BusinessID: r.BusinessID, Shard: r.Shard, State: int64(clock.Scheduled),
		Generation:  r.Generation,
		PayloadKind: r.PayloadKind, ContentType: r.ContentType, TargetRingAt: r.TargetRingAt,
		LatestRingAt: engine.ToNull(clock.Instant(r.LatestRingAt)),
		NextTryTime:  sql.NullInt64{Int64: r.TargetRingAt, Valid: true},
		RetryPolicy:  r.RetryPolicy, AckTimeout: r.AckTimeout, MaxRings: r.MaxRings, Priority: r.Priority,
		Traceparent: r.Traceparent,
		UpdateTime:  r.CreateTime, Delivery: int64(clock.AtLeastOnce), DueRank: r.DueRank,
		PayloadLength: int64(len(r.Payload)),
	}}
}

// LockDue locks the rows, and does not wait for any (LockDue).
func (t *claimTx) LockDue(ctx context.Context, ids []int64) ([]engine.DueRow, error) {
	rows, err := t.q.LockDue(ctx, t, dbsqlc.LockDueParams{Ids: ids, Now: int64(t.request.Now)})
	return engine.DueRows(rows, func(r dbsqlc.LockDueRow) engine.DueColumns { return engine.DueColumns(r) }), err
}

// EndAlarms queues the statements that write the ended alarms and their attempts (EndAlarms, PruneAttempts).
func (t *claimTx) EndAlarms(ctx context.Context, judged *store.Judgment) error {
	params := endParams(judged)
	params.Now = int64(t.request.Now)
	if t.shards != nil {
		return t.endDistributed(ctx, &params, judged.Attempts)
	}
	if err := t.q.EndAlarms(ctx, &t.waiting, params); err != nil || len(judged.Attempts) == 0 {
		return err
	}
	return t.d.prune(ctx, &t.waiting, judged.Attempts)
}

// Take takes the rows and reads their payloads in one statement (TakeHeld, TakeTwoPhase, TakeOnce).
func (t *claimTx) Take(ctx context.Context, rows []*engine.DueRow) (int, error) {
	p := takeParams(rows)
	p.Now, p.ClaimID = int64(t.request.Now), t.request.ClaimID
	switch t.request.Kind() {
	case store.Once:
		taken, err := t.q.TakeOnce(ctx, t, dbsqlc.TakeOnceParams{
			ClaimID: p.ClaimID, Now: p.Now, Ids: p.Ids, Generations: p.Generations, States: p.States,
			RingNos:    p.RingNos,
			RetryTimes: p.RetryTimes, InDoubts: p.InDoubts, NextTryTimes: p.NextTryTimes, UpdateTimes: p.UpdateTimes,
		})
		return engine.SetPayloads(rows, taken, func(r dbsqlc.TakeOnceRow) engine.PayloadRow { return engine.PayloadRow(r) }), err
	case store.TwoPhase:
		taken, err := t.q.TakeTwoPhase(ctx, t, dbsqlc.TakeTwoPhaseParams{
			ClaimEnd: int64(t.request.ClaimEnd()), DoubtTarget: int64(t.request.Target), Now: p.Now, Ids: p.Ids,
			Generations: p.Generations, States: p.States, RingNos: p.RingNos,
			RetryTimes: p.RetryTimes, InDoubts: p.InDoubts, NextTryTimes: p.NextTryTimes, UpdateTimes: p.UpdateTimes,
		})
		return engine.SetPayloads(rows, taken, func(r dbsqlc.TakeTwoPhaseRow) engine.PayloadRow { return engine.PayloadRow(r) }), err
	default:
		taken, err := t.q.TakeHeld(ctx, t, p)
		return engine.SetPayloads(rows, taken, func(r dbsqlc.TakeHeldRow) engine.PayloadRow { return engine.PayloadRow(r) }), err
	}
}

// CommitAndBegin sends the waiting statements and COMMIT in one round trip. BEGIN travels with the next statement.
func (t *claimTx) CommitAndBegin(ctx context.Context) error {
	if len(t.waiting.QueuedQueries) == 0 {
		return t.commit(ctx)
	}
	statements := t.waiting
	t.waiting = pipeline{shards: t.shards}
	return t.send(ctx, &statements)
}

// RollbackAndBegin rolls back. BEGIN travels with the next statement.
func (t *claimTx) RollbackAndBegin(ctx context.Context) error {
	t.waiting = pipeline{shards: t.shards}
	return t.rollback(ctx)
}

// Commit sends the waiting statements and COMMIT in one round trip, and returns the connection to its pool.
func (t *claimTx) Commit(ctx context.Context) error {
	defer t.close(ctx)
	return t.CommitAndBegin(ctx)
}
