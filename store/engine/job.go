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
	// ReadJob returns a job, or sql.ErrNoRows.
	ReadJob(ctx context.Context, id string) (JobRow, error)
	// ReadJobs returns at most limit jobs, the newest first. With open it returns only jobs that have not ended, the
	// oldest first.
	ReadJobs(ctx context.Context, open bool, limit int) ([]JobRow, error)
	// BeginJobs begins a transaction that changes jobs.
	BeginJobs(ctx context.Context) (JobsTx, error)
	// DeleteJobs deletes the jobs that ended before the instant.
	DeleteJobs(ctx context.Context, before clock.Instant) error
}

// JobsTx is a transaction that changes jobs.
type JobsTx interface {
	Tx
	ActsTx
	// AddJob inserts a job.
	AddJob(ctx context.Context, row *JobRow) error
	// WriteJob writes a job if its revision is row.Revision. It returns how many rows it wrote: 1 or 0.
	WriteJob(ctx context.Context, row *JobRow) (int64, error)
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

// AddJob stores a new job, and the act of its start.
func (s *Store) AddJob(ctx context.Context, j clock.JobRecord, act clock.Act) error {
	return s.replayed(ctx, "add a job", func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginJobs, func(t JobsTx) error {
			if err := t.AddJob(ctx, jobRow(&j)); err != nil {
				return err
			}
			return addActs(ctx, t, act)
		})
	})
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

// Jobs returns the newest jobs. It needs a place for a list, because people ask for it.
func (s *Store) Jobs(ctx context.Context, limit int) ([]clock.JobRecord, error) {
	return s.jobs(ctx, false, limit)
}

func (s *Store) jobs(ctx context.Context, open bool, limit int) (jobs []clock.JobRecord, err error) {
	run := s.read
	if open {
		run = s.call
	}
	err = run(ctx, "list jobs", func(ctx context.Context) error {
		rows, err := s.driver.ReadJobs(ctx, open, limit)
		jobs = Column(rows, (*JobRow).record)
		return err
	})
	return jobs, err
}

// ChangeJob writes the next state of a job, and the acts that led to it.
func (s *Store) ChangeJob(ctx context.Context, j clock.JobRecord, acts ...clock.Act) (written bool, err error) {
	err = s.replayed(ctx, "write a job", func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginJobs, func(t JobsTx) error {
			n, err := t.WriteJob(ctx, jobRow(&j))
			if written = n == 1; err != nil || !written {
				return err
			}
			return addActs(ctx, t, acts...)
		})
	})
	return written, err
}

// DeleteJobs deletes old jobs.
func (s *Store) DeleteJobs(ctx context.Context, before clock.Instant) error {
	return s.replayed(ctx, "delete jobs", func(ctx context.Context) error { return s.driver.DeleteJobs(ctx, before) })
}
