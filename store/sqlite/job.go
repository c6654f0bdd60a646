package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// ReadJob reads a job (GetJob).
func (d *Driver) ReadJob(ctx context.Context, id string) (engine.JobRow, error) {
	row, err := d.q.GetJob(ctx, d.loading, id)
	return engine.JobRow(row), err
}

// ReadJobs reads jobs: open ones for the runner, others for people (ListOpenJobs, ListJobs).
func (d *Driver) ReadJobs(ctx context.Context, open bool, limit int) ([]engine.JobRow, error) {
	list, from := d.q.ListJobs, dbsqlc.DBTX(d.reads)
	if open {
		list, from = d.q.ListOpenJobs, d.loading
	}
	rows, err := list(ctx, from, int64(limit))
	return engine.Column(rows, func(r *dbsqlc.BulkJob) engine.JobRow { return engine.JobRow(*r) }), err
}

// BeginJobs begins a transaction that changes jobs.
func (d *Driver) BeginJobs(ctx context.Context) (engine.JobsTx, error) {
	t, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// AddJob inserts a job (AddJob).
func (t *writeTx) AddJob(ctx context.Context, row *engine.JobRow) error {
	return t.q.AddJob(ctx, t, dbsqlc.AddJobParams(*row))
}

// WriteJob writes a job (WriteJob).
func (t *writeTx) WriteJob(ctx context.Context, row *engine.JobRow) (int64, error) {
	return t.q.WriteJob(ctx, t, dbsqlc.WriteJobParams{
		EndedAt: row.EndedAt, Owner: row.Owner, LeaseUntil: row.LeaseUntil, Document: row.Document, ID: row.ID,
		Revision: row.Revision,
	})
}

// DeleteJobs deletes old jobs (DeleteJobs).
func (d *Driver) DeleteJobs(ctx context.Context, before clock.Instant) error {
	return engine.InTx(ctx, d.begin, func(t *writeTx) error {
		_, err := t.q.DeleteJobs(ctx, t, engine.ToNull(before))
		return err
	})
}
