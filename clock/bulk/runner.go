package bulk

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// poll is the time between two looks for jobs without an owner.
	poll = time.Second
	// leaseTime is the length of a lease. A page has a second less, and so more than an op that waits for its row
	// (clock.RequestTimeout less 5 s).
	leaseTime = 12 * time.Second
	// keepJobs is how long ended jobs are kept.
	keepJobs = 30 * 24 * time.Hour
	// sweep is the time between two deletions of old jobs.
	sweep = time.Hour
	// openJobs is the number of jobs that a look returns.
	openJobs = 100
	// repeatWait is the wait before ops without a decision are submitted again.
	repeatWait = 200 * time.Millisecond
)

// Deps are the parts that a Runner uses.
type Deps struct {
	Alarms      Alarms
	Store       Store
	Now         func() (clock.Instant, error) // the database's time
	Incarnation string                        // of this node
	Log         *slog.Logger
}

// Runner starts jobs, and works on jobs that no other node works on, one after the other.
type Runner struct {
	alarms Alarms
	store  Store
	now    func() (clock.Instant, error)
	self   string
	log    *slog.Logger
	wake   chan struct{} // capacity 1: look for jobs at once
}

// NewRunner returns a Runner. It does no work before Run.
func NewRunner(deps Deps) *Runner {
	return &Runner{alarms: deps.Alarms, store: deps.Store, now: deps.Now, self: deps.Incarnation, log: deps.Log,
		wake: make(chan struct{}, 1)}
}

// Run works on jobs until ctx ends. It gives up the lease of a job that it has not ended.
func (r *Runner) Run(ctx context.Context) error {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	var swept time.Time
	for {
		if err := r.takeJobs(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("could not work on a bulk job", "err", err)
		}
		if time.Since(swept) > sweep {
			swept = time.Now()
			r.deleteOld(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-timer.C:
		}
		timer.Reset(poll)
	}
}

func (r *Runner) deleteOld(ctx context.Context) {
	now, err := r.now()
	if err == nil {
		err = r.store.DeleteJobs(ctx, now.Add(-keepJobs))
	}
	if err != nil && ctx.Err() == nil {
		r.log.Debug("could not delete old bulk jobs", "err", err)
	}
}

// takeJobs takes each job without an owner, and works on it to its end.
func (r *Runner) takeJobs(ctx context.Context) error {
	records, err := r.store.OpenJobs(ctx, openJobs)
	if err != nil {
		return err
	}
	for _, record := range records {
		now, err := r.now()
		if err != nil {
			return err
		}
		if record.Owner != "" && record.Owner != r.self && record.LeaseUntil > now {
			continue
		}
		if err := r.take(ctx, record, now); err != nil {
			return err
		}
	}
	return nil
}

// take takes the lease of a job and works on it, unless another node takes it first.
func (r *Runner) take(ctx context.Context, record clock.JobRecord, now clock.Instant) error {
	j, unreadable := jobOf(record)
	if unreadable != nil {
		r.log.Error("a bulk job cannot be read: it ends", "job", record.ID, "err", unreadable)
		record.EndedAt = now
		_, err := r.store.ChangeJob(ctx, record)
		return err
	}
	j.Owner, j.record.LeaseUntil = r.self, now.Add(leaseTime)
	written, err := r.write(ctx, j)
	if err != nil || !written {
		return err
	}
	r.log.Info("bulk job begun", "job", j.ID, "action", string(j.Action), "application", j.Application, "by", j.By,
		"count", j.Changed)
	return r.work(ctx, j)
}

// work changes page after page, until the job ends, another node has written its row, or ctx ends.
func (r *Runner) work(ctx context.Context, j *Job) error {
	var ahead *page
	for j.EndedAt == clock.NoInstant {
		if !j.Stop {
			var err error
			ahead, err = r.page(ctx, j, ahead)
			if ctx.Err() != nil {
				return r.leave(ctx, j)
			}
			if err != nil {
				return err // the next look repeats the page, on this node or another
			}
		}
		if goesOn, err := r.save(ctx, j); err != nil || !goesOn {
			return err
		}
	}
	r.log.Info("bulk job ended", "job", j.ID, "count", j.Changed, "refused", j.RefusedTotal(), "stopped", j.Left)
	return nil
}

// save writes the row of a job. If a person has asked for its end meanwhile, the row is written with that. It returns
// false if another node has the job.
func (r *Runner) save(ctx context.Context, j *Job) (goesOn bool, err error) {
	for range stopTries {
		now, err := r.now()
		if err != nil {
			return false, err
		}
		if j.Stop && j.EndedAt == clock.NoInstant {
			j.EndedAt, j.Left = now, true
		}
		j.record.LeaseUntil = now.Add(leaseTime)
		written, err := r.write(ctx, j)
		if err != nil || written {
			return written, err
		}
		stored, err := r.store.Job(ctx, j.ID)
		if err != nil || stored.Owner != r.self {
			return false, err
		}
		theirs, err := jobOf(stored)
		if err != nil {
			return false, err
		}
		j.Stop, j.record.Revision = theirs.Stop, stored.Revision
	}
	return false, nil
}

// leave gives the lease up, so that another node goes on at once.
func (r *Runner) leave(ctx context.Context, j *Job) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	j.Owner, j.record.LeaseUntil = "", 0
	_, err := r.write(ctx, j)
	return err
}

// page is a part of the alarms that a filter selects.
type page struct {
	alarms []selected
	next   clock.ListPosition // zero: no alarm follows
}

// selected is an alarm as it was read.
type selected struct {
	clock.Key
	generation int64
}

// read reads the page behind a position.
func (r *Runner) read(ctx context.Context, f *Filter, after clock.ListPosition) (*page, error) {
	p := &page{}
	var err error
	p.next, err = r.alarms.List(ctx, f.list(after), func(a *clock.Alarm) bool {
		if f.admits(a) {
			p.alarms = append(p.alarms, selected{a.Key, a.Generation})
		}
		return true
	})
	return p, err
}

// first reads the page at which the job stands.
func (r *Runner) first(ctx context.Context, j *Job) (*page, error) {
	if j.Cursor == "" {
		return r.read(ctx, &j.Filter, clock.ListPosition{})
	}
	after, err := clock.DecodeCursor(j.Application, j.Cursor)
	if err != nil {
		return nil, err
	}
	return r.read(ctx, &j.Filter, after)
}

// page changes the alarms of a page, nil: the page at which the job stands, and notes the position behind it. After an
// error the job stands before the page. Meanwhile it reads the page that follows if the filter is lasting, and returns
// it, else nil.
func (r *Runner) page(ctx context.Context, j *Job, p *page) (ahead *page, err error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTime-time.Second)
	defer cancel()
	if p == nil {
		if p, err = r.first(ctx, j); err != nil {
			return nil, err
		}
	}
	var reading sync.WaitGroup
	if j.lasting() && !p.next.IsZero() {
		reading.Go(func() {
			if following, err := r.read(ctx, &j.Filter, p.next); err == nil {
				ahead = following
			}
		})
	}
	changed, refused, err := r.change(ctx, &j.Document, p.alarms)
	reading.Wait()
	if err != nil {
		return nil, err
	}
	j.Changed += changed
	for code, n := range refused {
		if j.Refused == nil {
			j.Refused = map[string]int{}
		}
		j.Refused[code] += n
	}
	if p.next.IsZero() {
		j.EndedAt, err = r.now()
		return nil, err
	}
	j.Cursor = clock.EncodeCursor(j.Application, p.next)
	return ahead, nil
}

// change submits an op for each alarm, and counts the outcomes. Ops without a decision are repeated until ctx ends,
// because the database or the queue of writes is at fault. An op whose row stayed locked is refused: it has waited as a
// request does.
func (r *Runner) change(
	ctx context.Context, d *Document, alarms []selected,
) (changed int, refused map[string]int, err error) {
	refused = map[string]int{}
	unconfirmed := map[clock.Key]bool{}
	for {
		pending := make([]*clock.Pending, len(alarms))
		for i, a := range alarms {
			pending[i] = r.alarms.Submit(ctx, d.op(a))
		}
		var again []selected
		for i, p := range pending {
			_, err := p.Wait(ctx)
			switch e, is := errors.AsType[*clock.Error](err); {
			case err == nil:
				changed++
			case !is ||
				!errors.Is(err, clock.ErrRowLocked) &&
					(errors.Is(err, clock.ErrUnavailable) || errors.Is(err, clock.ErrUnconfirmed)):
				again = append(again, alarms[i])
				if errors.Is(err, clock.ErrUnconfirmed) {
					unconfirmed[alarms[i].Key] = true
				}
			case unconfirmed[alarms[i].Key] &&
				(errors.Is(err, clock.ErrConflict) || errors.Is(err, clock.ErrPrecondition)):
				changed++ // by the try whose outcome was unknown
			case errors.Is(err, clock.ErrPrecondition): // it has changed since the filter was frozen, so the filter does not select it
			default:
				refused[e.Code]++
			}
		}
		if alarms = again; len(alarms) == 0 {
			return changed, refused, nil
		}
		select {
		case <-ctx.Done():
			return 0, nil, ctx.Err()
		case <-time.After(repeatWait):
		}
	}
}
