package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadActs reads acts (ListActs, ListActsOf, ListActsOn).
func (d *Driver) ReadActs(ctx context.Context, q *clock.ActsQuery) ([]engine.ActRow, error) {
	var rows []dbsqlc.Audit
	var err error
	switch {
	case q.Application == "":
		rows, err = d.q.ListActs(ctx, d.reads, dbsqlc.ListActsParams{BeforeID: q.BeforeID, RowLimit: int32(q.Limit)})
	case q.Subject == "":
		rows, err = d.q.ListActsOf(ctx, d.reads,
			dbsqlc.ListActsOfParams{Application: q.Application, BeforeID: q.BeforeID, RowLimit: int32(q.Limit)})
	default:
		rows, err = d.q.ListActsOn(ctx, d.reads, dbsqlc.ListActsOnParams{
			Application: q.Application, Subject: q.Subject, BeforeID: q.BeforeID, RowLimit: int32(q.Limit),
		})
	}
	return engine.Column(rows, func(r *dbsqlc.Audit) engine.ActRow { return engine.ActRow(*r) }), err
}

// DeleteActs deletes the oldest acts (DeleteActs).
func (d *Driver) DeleteActs(ctx context.Context, before clock.Instant, limit int) (deleted int, err error) {
	err = engine.InTx(ctx, func(ctx context.Context) (*tx, error) { return begin(ctx, d.leases, upkeepLockWait) }, func(t *tx) error {
		n, err := d.q.DeleteActs(ctx, t, dbsqlc.DeleteActsParams{DoneBefore: int64(before), RowLimit: int32(limit)})
		deleted = int(n)
		return err
	})
	return deleted, err
}

// AddActs inserts the rows (AddActs).
func (t *writeTx) AddActs(ctx context.Context, rows []engine.NewActRow) error {
	return t.q.AddActs(ctx, t.tx, actParams(rows))
}

// AddActs inserts the rows (AddActs).
func (t *changeTx) AddActs(ctx context.Context, rows []engine.NewActRow) error {
	return t.q.AddActs(ctx, t.tx, actParams(rows))
}

func actParams(rows []engine.NewActRow) dbsqlc.AddActsParams {
	return actArrays.Of(len(rows), func(i int, row, _ *engine.NewActRow) { *row = rows[i] })
}
