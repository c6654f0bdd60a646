package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// ReadActs reads acts (ListActs, ListActsOf, ListActsOn).
func (d *Driver) ReadActs(ctx context.Context, q *clock.ActsQuery) ([]engine.ActRow, error) {
	var rows []dbsqlc.Audit
	var err error
	switch {
	case q.Application == "":
		rows, err = d.q.ListActs(ctx, d.reads, dbsqlc.ListActsParams{BeforeID: q.BeforeID, RowLimit: int64(q.Limit)})
	case q.Subject == "":
		rows, err = d.q.ListActsOf(ctx, d.reads,
			dbsqlc.ListActsOfParams{Application: q.Application, BeforeID: q.BeforeID, RowLimit: int64(q.Limit)})
	default:
		rows, err = d.q.ListActsOn(ctx, d.reads, dbsqlc.ListActsOnParams{
			Application: q.Application, Subject: q.Subject, BeforeID: q.BeforeID, RowLimit: int64(q.Limit),
		})
	}
	return engine.Column(rows, func(r *dbsqlc.Audit) engine.ActRow { return engine.ActRow(*r) }), err
}

// DeleteActs deletes the oldest acts (DeleteActs).
func (d *Driver) DeleteActs(ctx context.Context, before clock.Instant, limit int) (deleted int, err error) {
	err = engine.InTx(ctx, d.begin, func(t *writeTx) error {
		n, err := d.q.DeleteActs(ctx, t, dbsqlc.DeleteActsParams{DoneBefore: int64(before), RowLimit: int64(limit)})
		deleted = int(n)
		return err
	})
	return deleted, err
}

// AddActs inserts the rows, one by one (AddAct). Transactions of settings and of tokens have it too.
func (t *writeTx) AddActs(ctx context.Context, rows []engine.NewActRow) error {
	for _, row := range rows {
		if err := t.q.AddAct(ctx, t, dbsqlc.AddActParams(row)); err != nil {
			return err
		}
	}
	return nil
}
