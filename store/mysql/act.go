package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// ReadActs reads acts (ListActs, ListActsOf, ListActsOn).
func (d *Driver) ReadActs(ctx context.Context, q *clock.ActsQuery) ([]engine.ActRow, error) {
	var rows []dbsqlc.Audit
	var err error
	switch {
	case q.Application == "":
		rows, err = d.q.ListActs(ctx, d.reads, dbsqlc.ListActsParams{BeforeID: q.BeforeID, Limit: int32(q.Limit)})
	case q.Subject == "":
		rows, err = d.q.ListActsOf(ctx, d.reads,
			dbsqlc.ListActsOfParams{Application: q.Application, BeforeID: q.BeforeID, Limit: int32(q.Limit)})
	default:
		rows, err = d.q.ListActsOn(ctx, d.reads, dbsqlc.ListActsOnParams{
			Application: q.Application, Subject: q.Subject, BeforeID: q.BeforeID, Limit: int32(q.Limit),
		})
	}
	return engine.Column(rows, func(r *dbsqlc.Audit) engine.ActRow { return engine.ActRow(*r) }), err
}

// DeleteActs deletes the oldest acts (DeleteActs).
func (d *Driver) DeleteActs(ctx context.Context, before clock.Instant, limit int) (deleted int, err error) {
	err = engine.InTx(ctx, func(ctx context.Context) (*tx, error) { return d.begin(ctx, d.leases) }, func(t *tx) error {
		n, err := d.q.DeleteActs(ctx, t, dbsqlc.DeleteActsParams{DoneBefore: int64(before), Limit: int32(limit)})
		deleted = int(n)
		return err
	})
	return deleted, err
}

// AddActs inserts the rows (AddActs).
func (w *writeTx) AddActs(ctx context.Context, rows []engine.NewActRow) error {
	return w.d.addActs(ctx, w.tx, rows)
}

// AddActs inserts the rows (AddActs).
func (t *changeTx) AddActs(ctx context.Context, rows []engine.NewActRow) error {
	return t.d.addActs(ctx, t.tx, rows)
}

func (d *Driver) addActs(ctx context.Context, t *tx, rows []engine.NewActRow) error {
	return d.inChunks(len(rows), func(from, to int) error {
		args := actArgs.Of(to-from, func(i int, row *engine.NewActRow) { *row = rows[from+i] })
		return d.q.AddActs(ctx, bulk{DBTX: t, rows: to - from, args: args}, dbsqlc.AddActsParams{})
	})
}
