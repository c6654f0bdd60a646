package sqlite

import (
	"context"
	"database/sql"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// ReadIDs lists ids (ListIDs).
func (d *Driver) ReadIDs(ctx context.Context, after int64, limit int) ([]int64, error) {
	return d.q.ListIDs(ctx, d.loading, dbsqlc.ListIDsParams{After: after, RowLimit: int64(limit)})
}

// MarkRestored marks the alarms (DoubtDue, RaiseAttempts, RaiseGenerations).
func (d *Driver) MarkRestored(ctx context.Context, m engine.RestoredMark) (counts store.RestoredCounts, err error) {
	err = engine.InTx(ctx, d.beginGuarded, func(tx *writeTx) (err error) {
		now, ids := int64(m.Now), jsonNumbers(m.IDs)
		if counts.InDoubt, err = d.q.DoubtDue(ctx, tx, dbsqlc.DoubtDueParams{Reason: m.Reason, Now: now, Ids: ids}); err != nil {
			return err
		}
		if err := d.q.RaiseAttempts(ctx, tx, dbsqlc.RaiseAttemptsParams{ByCount: m.Raise, Ids: ids, Now: now}); err != nil {
			return err
		}
		counts.Raised, err = d.q.RaiseGenerations(ctx, tx,
			dbsqlc.RaiseGenerationsParams{ByCount: m.Raise, Ids: ids, Now: now})
		return err
	})
	return counts, err
}

// The statements that skip ids of alarms. SQLite notes the last id of a table with its first row.
const (
	noteIDs = "INSERT INTO sqlite_sequence (name, seq) SELECT 'alarm', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'alarm')"
	skipIDs = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'alarm'"
)

// SkipIDs skips ids.
func (d *Driver) SkipIDs(ctx context.Context, count int64) error {
	return skipIDsIn(ctx, d.writer, count)
}

func skipIDsIn(ctx context.Context, db *sql.DB, count int64) error {
	if _, err := db.ExecContext(ctx, noteIDs); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, skipIDs, count)
	return err
}
