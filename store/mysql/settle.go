package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// BeginSettle begins a transaction that settles a committed claim (two-phase or at most once), or awaited rings.
func (d *Driver) BeginSettle(ctx context.Context, r *store.ClaimRequest) (engine.SettleTx, error) {
	t, err := d.begin(ctx, d.rings)
	if err != nil {
		return nil, err
	}
	return &claimTx{tx: t, d: d, request: r, committed: true}, nil
}

// Confirm writes the confirmed rows of a two-phase claim (ConfirmAlarms), a statement for each generation; a batch has
// few of them. It leaves out the rows that the claim has lost (invariant 4). It reads the lost rows (ListLost) and not
// the rows that the claim still has: usually no row is lost, so the read allocates less for each ring.
func (t *claimTx) Confirm(ctx context.Context, rings []clock.Ring) error {
	claimEnd := int64(t.request.ClaimEnd())
	lost, err := t.d.q.ListLost(ctx, t, dbsqlc.ListLostParams{
		Ids: engine.Column(rings, func(r *clock.Ring) int64 { return r.AlarmID }), ClaimEnd: claimEnd,
	})
	if err != nil {
		return err
	}
	ids := make(map[int64][]int64) // alarm ids by generation
	for i := range rings {
		if r := &rings[i]; !slices.Contains(lost, r.AlarmID) {
			ids[r.Generation] = append(ids[r.Generation], r.AlarmID)
		}
	}
	for _, generation := range slices.Sorted(maps.Keys(ids)) {
		_, err := t.d.q.ConfirmAlarms(ctx, t, dbsqlc.ConfirmAlarmsParams{
			RungAt: int64(t.request.Now), ClaimID: t.request.ClaimID, Ids: ids[generation], Generation: generation,
			ClaimEnd: claimEnd,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Settle writes the changed rows, and the attempts. Of a committed claim it first locks the rows that are still as the
// claim left them (lockClaimed). Other rows were claimed again after the claim's end, or set again.
func (t *claimTx) Settle(ctx context.Context, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	if t.committed {
		unchanged, err := t.lockClaimed(ctx, settled)
		if err != nil {
			return err
		}
		attempts = store.AttemptsOf(attempts, unchanged)
		settled = dropSettlements(settled, func(s *store.Settlement) bool { return !unchanged[s.ID] })
	}
	return t.d.settle(ctx, t.tx, dropSettlements(settled, (*store.Settlement).Unchanged), attempts)
}

// lockClaimed locks the rows that are still as the claim or its last settlement left them, and returns the set of their
// ids. It first reads without locks, and then locks only the rows that match (invariant 4).
func (t *claimTx) lockClaimed(ctx context.Context, settled []store.Settlement) (map[int64]bool, error) {
	row := &settled[0].Claimed
	found, err := t.stillClaimed(ctx, plainRead{t}, row,
		engine.Column(settled, func(s *store.Settlement) int64 { return s.ID }))
	if err == nil && len(found) > 0 {
		found, err = t.stillClaimed(ctx, t, row, found)
	}
	unchanged := make(map[int64]bool, len(found))
	for _, id := range found {
		unchanged[id] = true
	}
	return unchanged, err
}

// stillClaimed returns the ids of the rows that are still as the claim or its last settlement left them (LockOnce,
// LockTwoPhase, LockAwaited). It locks these rows, unless db is a plainRead. row is the row that the claim or the
// settlement wrote.
func (t *claimTx) stillClaimed(ctx context.Context, db dbsqlc.DBTX, row *clock.RingRow, ids []int64) ([]int64, error) {
	switch row.State {
	case clock.Rung:
		return t.d.q.LockOnce(ctx, db,
			dbsqlc.LockOnceParams{Ids: ids, ClaimID: row.ClaimID, UpdateTime: int64(row.UpdateTime)})
	case clock.Scheduled:
		return t.d.q.LockAwaited(ctx, db, dbsqlc.LockAwaitedParams{Ids: ids, UpdateTime: int64(row.UpdateTime)})
	default:
		return t.d.q.LockTwoPhase(ctx, db, dbsqlc.LockTwoPhaseParams{Ids: ids, ClaimEnd: int64(t.request.ClaimEnd())})
	}
}

// plainRead is a DBTX that runs a locking read as a plain read of the committed rows.
type plainRead struct{ dbsqlc.DBTX }

// QueryContext runs the statement without its locking clause.
func (p plainRead) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	plain, locks := strings.CutSuffix(query, "\nFOR UPDATE\n")
	if !locks {
		return nil, fmt.Errorf("mysql: no locking clause at the end of %q", query)
	}
	return p.DBTX.QueryContext(ctx, plain, args...)
}

// dropSettlements returns the settlements that do not match.
func dropSettlements(settled []store.Settlement, matches func(s *store.Settlement) bool) []store.Settlement {
	var rest []store.Settlement
	for i := range settled {
		if !matches(&settled[i]) {
			rest = append(rest, settled[i])
		}
	}
	return rest
}

// settle writes locked rows, notes ended ones, and adds attempts. It keeps the newest attempts of each row
// (SettleAlarms, NoteAttention, InsertAttempts, ListExcessAttempts, DeleteAttempts).
func (d *Driver) settle(ctx context.Context, t *tx, settled []store.Settlement, attempts []store.AlarmAttempt) error {
	err := d.inChunks(len(settled), func(from, to int) error {
		args := settleArgs.Of(to-from, func(i int, row *engine.Row) {
			s := &settled[from+i]
			row.SetRing(s.ID, s.Generation, &s.RingRow)
		})
		b := bulk{DBTX: t, rows: to - from, args: args}
		_, err := d.q.SettleAlarms(ctx, b, dbsqlc.SettleAlarmsParams{})
		return err
	})
	if err != nil {
		return err
	}
	var ended []int64
	for i := range settled {
		if settled[i].State.Attention() {
			ended = append(ended, settled[i].ID)
		}
	}
	if err := d.noteAttention(ctx, t, ended); err != nil || len(attempts) == 0 {
		return err
	}
	return d.addAttempts(ctx, t, attempts)
}

func (d *Driver) addAttempts(ctx context.Context, t *tx, attempts []store.AlarmAttempt) error {
	err := d.inChunks(len(attempts), func(from, to int) error {
		args := attemptArgs.Of(to-from, func(i int, row *engine.AttemptRow) { row.SetAttempt(&attempts[from+i]) })
		b := bulk{DBTX: t, rows: to - from, args: args}
		return d.q.InsertAttempts(ctx, b, dbsqlc.InsertAttemptsParams{})
	})
	if err != nil {
		return err
	}
	alarmIDs := engine.Column(attempts, func(a *store.AlarmAttempt) int64 { return a.AlarmID })
	for {
		excess, err := d.q.ListExcessAttempts(ctx, t,
			dbsqlc.ListExcessAttemptsParams{AlarmIds: alarmIDs, Kept: clock.MaxAttempts})
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
