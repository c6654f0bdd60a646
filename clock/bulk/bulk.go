package bulk

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// pageAlarms is the number of alarms that a job changes between two writes of its row.
	pageAlarms = 1000
	// samples is the number of alarms that Count returns.
	samples = 10
	// countTime is the time after which Count ends.
	countTime = 10 * time.Second
	// shownJobs is the number of jobs that Jobs returns, and readJobs the number of jobs among which it chooses them.
	shownJobs, readJobs = 100, 2000
	// stopTries is how often Stop repeats its write when the owner has written the row meanwhile.
	stopTries = 20
	// maxOpen is the most jobs of an application that have not ended. Nodes take the jobs of all applications in the
	// order of their start, so no application keeps the others waiting for long.
	maxOpen = 10
	// countedJobs is the most open jobs, of all applications, among which those of an application are counted.
	countedJobs = 1000
)

// Alarms is the part of clock.Service that this package uses.
type Alarms interface {
	List(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) (next clock.ListPosition, err error)
	Submit(ctx context.Context, op clock.Op) *clock.Pending
}

// Store keeps jobs. See store.Jobs.
type Store interface {
	AddJob(ctx context.Context, j clock.JobRecord, act clock.Act) error
	Job(ctx context.Context, id string) (clock.JobRecord, error)
	OpenJobs(ctx context.Context, limit int) ([]clock.JobRecord, error)
	Jobs(ctx context.Context, limit int) ([]clock.JobRecord, error)
	ChangeJob(ctx context.Context, j clock.JobRecord, acts ...clock.Act) (written bool, err error)
	DeleteJobs(ctx context.Context, before clock.Instant) error
}

// Selection is what a filter selects.
type Selection struct {
	FrozenAt clock.Instant
	Count    int
	Complete bool     // false: there may be more alarms, because counting took too long
	Samples  []string // business ids of some alarms, at most samples
}

// Count freezes the filter, unless it is frozen, and counts the alarms that it selects. It changes nothing.
func (r *Runner) Count(ctx context.Context, f Filter) (Selection, error) {
	s := Selection{Complete: true}
	if _, err := r.freeze(&f); err != nil {
		return s, err
	}
	s.FrozenAt = f.FrozenAt
	for q, begun := f.list(clock.ListPosition{}), time.Now(); ; {
		next, err := r.alarms.List(ctx, q, func(a *clock.Alarm) bool {
			if f.admits(a) {
				if s.Count++; len(s.Samples) < samples {
					s.Samples = append(s.Samples, a.BusinessID)
				}
			}
			return true
		})
		switch {
		case err != nil:
			return s, err
		case next.IsZero():
			return s, nil
		case time.Since(begun) > countTime:
			s.Complete = false
			return s, nil
		}
		q.After = next
	}
}

// freeze validates the filter, and sets FrozenAt if it is not set.
func (r *Runner) freeze(f *Filter) (now clock.Instant, err error) {
	if now, err = r.now(); err != nil {
		return now, err
	}
	if f.FrozenAt == clock.NoInstant {
		f.FrozenAt = now
	}
	if f.FrozenAt > now {
		return now, clock.Invalid(clock.CodeOutOfRange, "frozen_at", "frozen_at lies in the future")
	}
	return now, f.Validate()
}

// Start stores a job that a node takes soon. by is who starts it, as the job shows; actor is who, as the audit has it.
func (r *Runner) Start(ctx context.Context, f Filter, by string, actor clock.Actor) (*Job, error) {
	now, err := r.freeze(&f)
	if err == nil {
		err = r.roomFor(ctx, f.Application)
	}
	if err != nil {
		return nil, err
	}
	j := &Job{
		ID: rand.Text(), CreatedAt: now, EndedAt: clock.NoInstant, Status: Waiting,
		Document: Document{Filter: f, By: by},
	}
	j.record = clock.JobRecord{ID: j.ID, CreatedAt: now, Revision: 1}
	record, err := j.next()
	if err != nil {
		return nil, err
	}
	if err := r.store.AddJob(ctx, record, j.startAct(actor)); err != nil {
		return nil, err
	}
	clock.Signal(r.wake)
	return j, nil
}

// roomFor returns a clock.ErrLimited if the application has too many jobs that have not ended. Starts at the same time
// may pass together.
func (r *Runner) roomFor(ctx context.Context, application string) error {
	records, err := r.store.OpenJobs(ctx, countedJobs)
	if err != nil {
		return err
	}
	open := 0
	for _, record := range records {
		if j, err := jobOf(record); err == nil && j.Application == application {
			open++
		}
	}
	if open < maxOpen {
		return nil
	}
	return &clock.Error{Kind: clock.ErrLimited, Code: clock.CodeRateLimited, RetryAfter: 10 * time.Second,
		Detail: fmt.Sprintf("%d jobs of the application have not ended: wait for them, or stop them", open)}
}

// Job returns a job.
func (r *Runner) Job(ctx context.Context, id string) (*Job, error) {
	record, err := r.store.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	now, err := r.now()
	if err != nil {
		return nil, err
	}
	return read(record, now), nil
}

// read returns the job of a record. An unreadable job has no action.
func read(record clock.JobRecord, now clock.Instant) *Job {
	j, _ := jobOf(record)
	j.Status = j.statusAt(now)
	return j
}

// Jobs returns the newest jobs of the wanted applications, the newest first. The application of a job that cannot be
// read is "".
func (r *Runner) Jobs(ctx context.Context, wanted func(application string) bool) ([]*Job, error) {
	records, err := r.store.Jobs(ctx, readJobs)
	if err != nil {
		return nil, err
	}
	now, err := r.now()
	if err != nil {
		return nil, err
	}
	var jobs []*Job
	for _, record := range records {
		if j := read(record, now); len(jobs) < shownJobs && wanted(j.Application) {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// Stop ends a job after the page under way. A job that has ended stays as it is.
func (r *Runner) Stop(ctx context.Context, id string, actor clock.Actor) (*Job, error) {
	for range stopTries {
		j, err := r.Job(ctx, id)
		if err != nil || j.EndedAt != clock.NoInstant || j.Stop {
			return j, err
		}
		now, err := r.now()
		if err != nil {
			return nil, err
		}
		if j.Action == "" && j.Status == Running {
			return nil, &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable,
				Detail: "this node cannot read the job, and another node works on it: stop it there"}
		}
		j.Stop = true
		if j.Status == Waiting {
			j.EndedAt, j.Left = now, true
		}
		written, err := r.write(ctx, j, j.stopAct(now, actor))
		if err != nil || written {
			clock.Signal(r.wake)
			j.Status = j.statusAt(now)
			return j, err
		}
	}
	return nil, &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second,
		Detail: fmt.Sprintf("job %.64q changes too fast; repeat later", id)}
}

// write writes the row of a job with the acts that led to it, and returns false if it has another revision.
func (r *Runner) write(ctx context.Context, j *Job, acts ...clock.Act) (bool, error) {
	record, err := j.next()
	if err != nil {
		return false, err
	}
	written, err := r.store.ChangeJob(ctx, record, acts...)
	if written {
		record.Revision++
		j.record = record
	}
	return written, err
}
