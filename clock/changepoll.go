package clock

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// changePoll is the time between two polls of a counter of changes, less a random part.
	changePoll = time.Second
	// changeJitter is the longest random part, so that the nodes do not poll together.
	changeJitter = 200 * time.Millisecond
	// changeReread is the time after which everything is read although the counter is the same: a person may have
	// changed rows without it.
	changeReread = time.Minute
	// changeGap is the least time from the begin of a poll to the next poll that is due at once.
	changeGap = 100 * time.Millisecond
	// changeReadLimit bounds one poll.
	changeReadLimit = 3 * time.Second
)

// ChangePollDeps are the dependencies of a ChangePoll.
type ChangePollDeps struct {
	Count func(ctx context.Context) (int64, error)       // reads the counter, which rises with every change
	Read  func(ctx context.Context, changes int64) error // reads everything, which has at least these changes
	After func(ctx context.Context, polled bool)         // called after each poll of Run, which has succeeded or not; nil: nothing
	Part  string                                         // what Read reads, for the log: "settings of applications"
	Log   *slog.Logger
}

// ChangePoll keeps a copy of a part of the database current. It polls the part's counter of changes every second, and
// reads the part when the counter has changed.
type ChangePoll struct {
	deps    ChangePollDeps
	refresh chan struct{} // capacity 1: the next poll is due at once
	failed  atomic.Int64  // failed polls

	mu      sync.Mutex
	running bool          // Run runs
	begun   int64         // polls of Run that have begun
	ended   int64         // polls of Run that have ended
	last    error         // of the poll that ended last
	next    chan struct{} // closed when ended or running changes
	changes int64         // the counter when the part was last read
	read    time.Time     // when the part was last read; zero: never
	polled  time.Time     // when the last successful poll began; zero: never
	failing bool          // the last poll failed
}

// NewChangePoll returns a ChangePoll. Load or Run begins to read.
func NewChangePoll(deps ChangePollDeps) *ChangePoll {
	if deps.After == nil {
		deps.After = func(context.Context, bool) {}
	}
	return &ChangePoll{deps: deps, refresh: make(chan struct{}, 1), next: make(chan struct{})}
}

// Refresh makes Run poll at once, or soon after its last poll. Safe for concurrent use.
func (p *ChangePoll) Refresh() { Signal(p.refresh) }

// Renew makes Run poll, as Refresh does, and returns the error of a poll that has begun after the call, or the one of
// ctx. So many calls share a poll. It returns nil at once while Run does not run. Safe for concurrent use.
func (p *ChangePoll) Renew(ctx context.Context) error {
	p.mu.Lock()
	wanted := p.begun + 1
	p.mu.Unlock()
	p.Refresh()
	for {
		p.mu.Lock()
		renewed, next, err := p.ended >= wanted, p.next, p.last
		running := p.running
		p.mu.Unlock()
		switch {
		case renewed:
			return err
		case !running:
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Age returns the time since the copy was known to be current. Safe for concurrent use.
func (p *ChangePoll) Age() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.polled)
}

// Changes returns the counter of changes as of the last read, and the number of polls that failed. Safe for concurrent
// use.
func (p *ChangePoll) Changes() (changes, failedPolls int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes, p.failed.Load()
}

// Load polls once. Call it before Run, so that the copy exists before it is needed.
func (p *ChangePoll) Load(ctx context.Context) error { return p.poll(ctx) }

// Run polls until ctx ends.
func (p *ChangePoll) Run(ctx context.Context) error {
	timer := time.NewTimer(changePoll)
	defer timer.Stop()
	p.noteRun(func() { p.running = true })
	defer p.noteRun(func() { p.running = false })
	begun := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-p.refresh:
			if wait := changeGap - time.Since(begun); wait > 0 {
				timer.Reset(wait)
				continue
			}
		}
		begun = time.Now()
		p.noteRun(func() { p.begun++ })
		err := p.poll(ctx)
		p.noteRun(func() { p.ended, p.last = p.ended+1, err })
		p.note(ctx, err)
		p.deps.After(ctx, err == nil)
		timer.Reset(changePoll - rand.N(changeJitter))
	}
}

// noteRun changes what Run does, for those who wait in Renew.
func (p *ChangePoll) noteRun(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.next)
	p.next = make(chan struct{})
}

// note counts a failed poll, and logs the first one in a row.
func (p *ChangePoll) note(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		p.failed.Add(1)
	}
	if err != nil && !p.failing {
		p.deps.Log.Warn("could not poll the database: what was last read applies", "part", p.deps.Part, "err", err)
	}
	p.failing = err != nil
}

// poll reads the counter, and the part if the counter has changed.
func (p *ChangePoll) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, changeReadLimit)
	defer cancel()
	begun := time.Now()
	changes, err := p.deps.Count(ctx) // before the part, which then has at least these changes
	if err != nil {
		return err
	}
	if known, read := p.lastRead(); read.IsZero() || changes != known || begun.Sub(read) >= changeReread {
		if err := p.deps.Read(ctx, changes); err != nil {
			return err
		}
		p.noteRead(changes, begun)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polled = begun
	return nil
}

func (p *ChangePoll) lastRead() (changes int64, read time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changes, p.read
}

func (p *ChangePoll) noteRead(changes int64, read time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes, p.read = changes, read
}
