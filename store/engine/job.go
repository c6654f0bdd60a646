package engine

import (
	"context"
	"database/sql"
	"errors"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Jobs reads and writes the table bulk_job.
type Jobs interface {
	// AddJob inserts a job.
	AddJob(ctx context.Context, row *JobRow) error
	// ReadJob returns a job, or sql.ErrNoRows.
	ReadJob(ctx context.Context, id string) (JobRow, error)
	// ReadJobs returns at most limit jobs, the newest first. With open it returns only jobs that have not ended, the
	// oldest first.
	ReadJobs(ctx context.Context, open bool, limit int) ([]JobRow, error)
	// WriteJob writes a job if its revision is row.Revision. It returns how many rows it wrote: 1 or 0.
	WriteJob(ctx context.Context, row *JobRow) (int64, error)
	// DeleteJobs deletes the jobs that ended before the instant.
	DeleteJobs(ctx context.Context, before clock.Instant) error
}

// JobRow is a row of the table bulk_job. The row types of each engine's generated code convert to it.
type JobRow struct {
	ID         string
	CreatedAt  int64
	EndedAt    sql.NullInt64
	Owner      string
	LeaseUntil int64
	Revision   int64
	Document   string
}

func (r *JobRow) record() clock.JobRecord {
	return clock.JobRecord{
		ID: r.ID, CreatedAt: clock.Instant(r.CreatedAt), EndedAt: FromNull(r.EndedAt), Owner: r.Owner,
		LeaseUntil: clock.Instant(r.LeaseUntil),
		Revision:   r.Revision, Document: r.Document,
	}
}

func jobRow(j *clock.JobRecord) *JobRow {
	return &JobRow{
		ID: j.ID, CreatedAt: int64(j.CreatedAt), EndedAt: ToNull(j.EndedAt), Owner: j.Owner,
		LeaseUntil: int64(j.LeaseUntil), Revision: j.Revision, Document: j.Document,
	}
}

var _ store.Jobs = (*Store)(nil)

// AddJob stores a new job.
func (s *Store) AddJob(ctx context.Context, j clock.JobRecord) error {
	return s.replayed(ctx, "add a job", func(ctx context.Context) error { return s.driver.AddJob(ctx, jobRow(&j)) })
}

// Job returns a job.
func (s *Store) Job(ctx context.Context, id string) (j clock.JobRecord, err error) {
	err = s.call(ctx, "read a job", func(ctx context.Context) error {
		row, err := s.driver.ReadJob(ctx, id)
		if errors.Is(err, sql.ErrNoRows) {
			return clock.UnknownJob(id)
		}
		j = row.record()
		return err
	})
	return j, err
}

// OpenJobs returns the jobs that have not ended.
func (s *Store) OpenJobs(ctx context.Context, limit int) ([]clock.JobRecord, error) {
	return s.jobs(ctx, true, limit)
}

// Jobs returns the newest jobs.
func (s *Store) Jobs(ctx context.Context, limit int) ([]clock.JobRecord, error) {
	return s.jobs(ctx, false, limit)
}

func (s *Store) jobs(ctx context.Context, open bool, limit int) (jobs []clock.JobRecord, err error) {
	err = s.call(ctx, "list jobs", func(ctx context.Context) error {
		rows, err := s.driver.ReadJobs(ctx, open, limit)
		jobs = Column(rows, (*JobRow).record)
		return err
	})
	return jobs, err
}

// ChangeJob writes the next state of a job.
func (s *Store) ChangeJob(ctx context.Context, j clock.JobRecord) (written bool, err error) {
	err = s.replayed(ctx, "write a job", func(ctx context.Context) error {
		n, err := s.driver.WriteJob(ctx, jobRow(&j))
		written = n == 1
		return err
	})
	return written, err
}

// DeleteJobs deletes old jobs.
func (s *Store) DeleteJobs(ctx context.Context, before clock.Instant) error {
	return s.replayed(ctx, "delete jobs", func(ctx context.Context) error { return s.driver.DeleteJobs(ctx, before) })
}
