package mysql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// AddJob inserts a job (AddJob).
func (d *Driver) AddJob(ctx context.Context, row *engine.JobRow) error {
	return d.q.AddJob(ctx, d.leases, dbsqlc.AddJobParams(*row))
}

// ReadJob reads a job (GetJob).
func (d *Driver) ReadJob(ctx context.Context, id string) (engine.JobRow, error) {
	row, err := d.q.GetJob(ctx, d.leases, id)
	return engine.JobRow(row), err
}

// ReadJobs reads jobs (ListOpenJobs, ListJobs).
func (d *Driver) ReadJobs(ctx context.Context, open bool, limit int) ([]engine.JobRow, error) {
	list := d.q.ListJobs
	if open {
		list = d.q.ListOpenJobs
	}
	rows, err := list(ctx, d.leases, int32(limit))
	return engine.Column(rows, func(r *dbsqlc.BulkJob) engine.JobRow { return engine.JobRow(*r) }), err
}

// WriteJob writes a job (WriteJob).
func (d *Driver) WriteJob(ctx context.Context, row *engine.JobRow) (int64, error) {
	return d.q.WriteJob(ctx, d.leases, dbsqlc.WriteJobParams{
		EndedAt: row.EndedAt, Owner: row.Owner, LeaseUntil: row.LeaseUntil, Document: row.Document, ID: row.ID,
		Revision: row.Revision,
	})
}

// DeleteJobs deletes old jobs (DeleteJobs).
func (d *Driver) DeleteJobs(ctx context.Context, before clock.Instant) error {
	_, err := d.q.DeleteJobs(ctx, d.leases, engine.ToNull(before))
	return err
}
