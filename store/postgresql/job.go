package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadJob reads a job (GetJob).
func (d *Driver) ReadJob(ctx context.Context, id string) (engine.JobRow, error) {
	row, err := d.q.GetJob(ctx, d.leases, id)
	return engine.JobRow(row), err
}

// ReadJobs reads jobs: open ones for the runner, others for people (ListOpenJobs, ListJobs).
func (d *Driver) ReadJobs(ctx context.Context, open bool, limit int) ([]engine.JobRow, error) {
	list, from := d.q.ListJobs, d.reads
	if open {
		list, from = d.q.ListOpenJobs, d.leases
	}
	rows, err := list(ctx, from, int32(limit))
	return engine.Column(rows, func(r *dbsqlc.BulkJob) engine.JobRow { return engine.JobRow(*r) }), err
}

// BeginJobs begins a transaction that changes jobs.
func (d *Driver) BeginJobs(ctx context.Context) (engine.JobsTx, error) {
	t, err := d.beginChange(ctx)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// AddJob inserts a job (AddJob).
func (t *changeTx) AddJob(ctx context.Context, row *engine.JobRow) error {
	return t.q.AddJob(ctx, t.tx, dbsqlc.AddJobParams(*row))
}

// WriteJob writes a job (WriteJob).
func (t *changeTx) WriteJob(ctx context.Context, row *engine.JobRow) (int64, error) {
	return t.q.WriteJob(ctx, t.tx, dbsqlc.WriteJobParams{
		EndedAt: row.EndedAt, Owner: row.Owner, LeaseUntil: row.LeaseUntil, Document: row.Document, ID: row.ID,
		Revision: row.Revision,
	})
}

// DeleteJobs deletes old jobs (DeleteJobs).
func (d *Driver) DeleteJobs(ctx context.Context, before clock.Instant) error {
	_, err := d.q.DeleteJobs(ctx, d.leases, engine.ToNull(before))
	return err
}
