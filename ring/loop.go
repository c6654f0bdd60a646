package ring

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
	"unique"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Database is what ringing needs of a store.
type Database interface {
	store.Claimer
	store.Expirer
}

// Time is a lower bound of the database's clock.
type Time interface {
	Now() (clock.Instant, error)
	Until(i clock.Instant) time.Duration
}

// Reader brings alarms into the heap.
type Reader interface {
	// Offer takes rows that are due again; those due later than what is loaded are read when their time comes.
	Offer(rows []store.Due)
	// Owned returns the shards that this node looks after: it ends what expires in them.
	Owned() []int
}

// Deps is what the Loop works with.
type Deps struct {
	Heap       *Heap
	Database   Database
	Target     Target
	Time       Time
	Reader     Reader
	Timer      func() Timer // nil: timers of the runtime
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Loop rings what is due: one goroutine owns what to ring next, a few workers ring it.
type Loop struct {
	cfg     Config
	heap    *Heap
	claimer Database
	target  Target
	time    Time
	reader  Reader
	timer   func() Timer
	log     *slog.Logger
	metrics *metrics

	work    chan batch // of healthy applications
	own     chan batch // of one that is not, for a worker that the others do without
	results chan result

	// owned by the goroutine of Run
	free       int  // workers without a batch, of those for healthy applications
	sick       bool // the one for the others has a batch
	rows       int  // a batch may have now, at most: fewer where the database is too slow for more
	pauseUntil time.Time
	failures   int // of the database, in a row
	ward       ward
}

// New returns a Loop; nothing happens before Run.
func New(cfg Config, deps Deps) (*Loop, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Timer == nil {
		deps.Timer = newPlainTimer
	}
	m := newMetrics(deps.Registerer, deps.Heap)
	return &Loop{
		cfg: cfg, heap: deps.Heap, claimer: deps.Database, target: deps.Target, time: deps.Time, reader: deps.Reader,
		timer: deps.Timer, log: deps.Log, metrics: m, work: make(chan batch, cfg.Workers), own: make(chan batch, 1),
		results: make(chan result, cfg.Workers+1), free: cfg.Workers, rows: cfg.BatchRows,
		ward: ward{
			cfg: cfg, heap: deps.Heap, target: deps.Target, log: deps.Log, metrics: m,
			applications: map[unique.Handle[string]]*application{},
		},
	}, nil
}

// Unwell returns the applications that do not ring with the others. Safe for concurrent use.
func (l *Loop) Unwell() []Unwell { return l.ward.Unwell() }

// maxSleep bounds every sleep, so that a step of a clock heals.
const maxSleep = time.Second

// Run rings until ctx ends and what was handed over by then is settled.
func (l *Loop) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	employ := func(work <-chan batch) (open chan<- struct{}) {
		w := &worker{l: l, lane: l.target.Lane(), open: make(chan struct{}, 1)}
		workers.Go(func() { w.run(ctx, work) })
		return w.open
	}
	opens := make([]chan<- struct{}, l.cfg.Workers)
	for i := range opens {
		opens[i] = employ(l.work)
	}
	employ(l.own) // opens its lane when it has something to ring
	workers.Go(func() { l.expire(ctx) })
	defer workers.Wait() // for what is on its way; the results have room for all
	defer close(l.work)
	defer close(l.own)
	timer := l.timer()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-l.results:
			l.land(r)
		case <-l.heap.Wake():
		case <-l.target.Changed():
			l.ward.cared = time.Time{}
			l.openLanes(opens)
		case <-timer.C():
		}
		timer.Reset(l.step(time.Now()))
		l.ward.publish()
	}
}

// openLanes has workers open their lanes, now that the target may have become usable.
func (l *Loop) openLanes(opens []chan<- struct{}) {
	if l.target.Usable() != nil {
		return
	}
	for _, open := range opens {
		signal(open)
	}
}

// step hands out all that is due to the free workers and returns how long nothing will be.
func (l *Loop) step(local time.Time) time.Duration {
	if wait := l.pauseUntil.Sub(local); wait > 0 {
		return min(wait, maxSleep)
	}
	if l.target.Usable() != nil {
		return maxSleep
	}
	now, err := l.time.Now()
	if err != nil {
		return maxSleep / 10
	}
	l.ward.care(now, local)
	for l.free > 0 {
		b, ok := l.nextShared(now)
		if !ok {
			break
		}
		l.free--
		l.work <- b
	}
	if a := l.nextSick(local); a != nil {
		l.sick = true
		l.own <- batch{entries: a.take(), own: a}
	}
	return l.wait()
}

// nextSick returns the suspect or held application that rings next, nil if none may: one rings at a time.
func (l *Loop) nextSick(local time.Time) *application {
	if l.sick {
		return nil
	}
	return l.ward.next(local)
}

// wait returns how long the loop may sleep.
func (l *Loop) wait() time.Duration {
	wait := maxSleep
	if len(l.ward.applications) > 0 {
		wait = min(wait, l.ward.pause())
	}
	if due, ok := l.heap.Head(); ok && l.free > 0 {
		wait = min(wait, l.time.Until(due))
	}
	return wait
}

// nextShared pops what is due of healthy applications, and parks or lets go what it meets of others.
func (l *Loop) nextShared(now clock.Instant) (batch, bool) {
	shared := make([]entry, 0, 16)
	for len(shared) < l.rows {
		from := len(shared)
		shared = l.heap.pop(shared, now, l.rows-from)
		if len(shared) == from {
			break
		}
		shared = l.sort(shared, from)
	}
	return batch{entries: shared}, len(shared) > 0
}

// sort keeps the healthy applications' entries from the index on, and parks or lets go the others.
func (l *Loop) sort(entries []entry, from int) []entry {
	kept := entries[:from]
	var gone []entry
	for _, e := range entries[from:] {
		switch shared, letGo := l.ward.admit(e); {
		case shared:
			kept = append(kept, e)
		case letGo:
			gone = append(gone, e)
		}
	}
	l.heap.letGo(gone)
	return kept
}

// land takes a batch back: what became of it, of its applications, and what is to be rung again.
func (l *Loop) land(r result) {
	if r.own != nil {
		l.sick, r.own.busy = false, false
	} else {
		l.free++
	}
	l.landRound(r)
	if r.once != nil {
		l.landRound(*r.once)
	}
}

func (l *Loop) landRound(r result) {
	if r.err != nil {
		l.failed(r)
		return
	}
	l.failures = 0
	l.rows = min(l.rows+max(1, l.rows/2), l.cfg.BatchRows)
	l.reader.Offer(l.heap.changed(r.again)) // while they fly: a set that was committed after their claim is newer
	l.heap.land(r.back, true)
	l.heap.land(r.entries, false)
	l.ward.judge(r)
}

// failed takes back a batch that the database failed, and pauses. The next ones are smaller: it may be too slow to claim so many
// before Config.Write, and would fail each of them.
func (l *Loop) failed(r result) {
	l.metrics.databaseErrors.Inc()
	if !errors.Is(r.err, context.Canceled) {
		l.log.Warn("could not ring a batch", "count", len(r.entries), "claimed", r.lost, "err", r.err)
	}
	l.heap.land(r.entries, true) // what was settled after all is passed over by the next claim
	l.rows = max(1, l.rows/2)
	const first, last = 50 * time.Millisecond, 2 * time.Second
	pause := min(last, first<<min(l.failures, 10))
	l.failures++
	l.pauseUntil = time.Now().Add(pause/2 + rand.N(pause/2))
}

// report counts and logs alarms that ended without a ring.
func (l *Loop) report(ended []store.Ended) {
	for i := range ended {
		l.metrics.ended.WithLabelValues(ended[i].State.String()).Inc()
		l.log.Debug("alarm ended without a ring", "application", ended[i].Application, "business_id", ended[i].BusinessID,
			"alarm_id", ended[i].ID, "state", ended[i].State.String(), "reason", ended[i].Reason)
	}
}
