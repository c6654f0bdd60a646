package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// BeginSettle begins a transaction that settles a claim.
func (d *Driver) BeginSettle(ctx context.Context, r *store.ClaimRequest) (engine.SettleTx, error) {
	t, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	return &claimTx{writeTx: t, request: r}, nil
}

// Confirm writes the confirmed rows in groups (SettleAlarms), because most of them differ only in the id.
func (t *claimTx) Confirm(ctx context.Context, rings []clock.Ring) error {
	return t.settleGroups(ctx, t.request.Confirmations(rings))
}

// Settle writes rows with attempts one by one, because the statement says only how many rows it changed (SettleAlarms,
// InsertAttempts, PruneAttempts). It writes the other rows in groups.
func (t *claimTx) Settle(ctx context.Context, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	attempted := store.Attempted(attempts)
	unchanged := make(map[int64]bool) // alarms with attempts whose rows are still as the claim wrote them
	var others []store.Settlement
	for i := range settled {
		if !attempted[settled[i].ID] {
			others = append(others, settled[i])
			continue
		}
		n, err := t.settle(ctx, &settled[i], []int64{settled[i].ID})
		if err != nil {
			return err
		}
		unchanged[settled[i].ID] = n > 0
	}
	if err := t.addAttempts(ctx, store.AttemptsOf(attempts, unchanged)); err != nil {
		return err
	}
	return t.settleGroups(ctx, others)
}

// settleGroups writes the settlements. Most rings of a batch have settlements that differ only in the ID: one statement
// writes them.
func (t *claimTx) settleGroups(ctx context.Context, settled []store.Settlement) error {
	groups := make(map[store.Settlement][]int64, 1)
	for _, s := range settled {
		id := s.ID
		s.ID = 0
		groups[s] = append(groups[s], id)
	}
	for s, ids := range groups {
		if _, err := t.settle(ctx, &s, ids); err != nil {
			return err
		}
	}
	return nil
}

// settle writes the rows with these ids that are still as the claim wrote them. It returns how many these are.
func (t *claimTx) settle(ctx context.Context, s *store.Settlement, ids []int64) (unchanged int64, err error) {
	return t.q.SettleAlarms(ctx, t, dbsqlc.SettleAlarmsParams{
		State: int64(s.State), NextTryTime: engine.ToNull(s.NextTryTime), RingNo: int64(s.RingNo),
		RetryTimes: int64(s.RetryTimes),
		LastError:  s.LastError, InDoubt: engine.Bit(s.InDoubt), DoubtTarget: int64(s.DoubtTarget), ClaimID: s.ClaimID,
		RungAt:     engine.ToNull(s.RungAt),
		UpdateTime: int64(s.UpdateTime), FinishedAt: engine.ToNull(s.FinishedAt), RepeatState: s.Progress.Encode(),
		Ids: jsonNumbers(ids), Generation: s.Generation, ClaimedState: int64(s.Claimed.State),
		ClaimedClaimID:     s.Claimed.ClaimID,
		ClaimedNextTryTime: engine.ToNull(s.Claimed.NextTryTime), ClaimedRungAt: engine.ToNull(s.Claimed.RungAt),
		ClaimedUpdateTime: int64(s.Claimed.UpdateTime),
	})
}

// addAttempts adds attempts and keeps only the newest attempts of each alarm (InsertAttempts, PruneAttempts).
func (t *writeTx) addAttempts(ctx context.Context, attempts []store.AlarmAttempt) error {
	for _, a := range attempts {
		p := insertAttemptParams.Of(func(row, _ *engine.AttemptRow) { row.SetAttempt(&a) })
		if err := t.q.InsertAttempts(ctx, t, p); err != nil {
			return err
		}
		if err := t.q.PruneAttempts(ctx, t, dbsqlc.PruneAttemptsParams{AlarmID: a.AlarmID, Kept: clock.MaxAttempts}); err != nil {
			return err
		}
	}
	return nil
}
