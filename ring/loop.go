package ring

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
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
	// Rewind reads everything that is due once more: some of it was let go.
	Rewind()
	// Shards returns the shards whose alarms this node rings.
	Shards() []int
}

// Deps is what the Loop works with.
type Deps struct {
	Heap       *Heap
	Database   Database
	Target     Target
	Time       Time
	Reader     Reader
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
	log     *slog.Logger
	metrics *metrics

	work    chan batch
	results chan result

	// owned by the goroutine of Run
	free       int // workers without a batch
	sick       int // workers with a batch of a suspect or held application
	pauseUntil time.Time
	failures   int // of the database, in a row
	rewound    time.Time
	cared      time.Time

	applications map[unique.Handle[string]]*application // those that are not healthy
	ready        []*application                         // of them, those that had a batch to ring at the last look

	unwell atomic.Pointer[[]Unwell] // what Unwell returns
}

// New returns a Loop; nothing happens before Run.
func New(cfg Config, deps Deps) (*Loop, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Loop{
		cfg: cfg, heap: deps.Heap, claimer: deps.Database, target: deps.Target, time: deps.Time, reader: deps.Reader,
		log: deps.Log, metrics: newMetrics(deps.Registerer, deps.Heap),
		work: make(chan batch, cfg.Workers), results: make(chan result, cfg.Workers), free: cfg.Workers,
		applications: map[unique.Handle[string]]*application{},
	}, nil
}

// maxSleep bounds every sleep, so that a step of a clock heals.
const maxSleep = time.Second

// Run rings until ctx ends and what was handed over by then is settled.
func (l *Loop) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for range l.cfg.Workers {
		w := &worker{l: l, lane: l.target.Lane()}
		workers.Go(func() { w.run(context.WithoutCancel(ctx), l.work) })
	}
	workers.Go(func() { l.expire(ctx) })
	defer workers.Wait()
	defer close(l.work)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			l.drain()
			return nil
		case r := <-l.results:
			l.land(r)
		case <-l.heap.Wake():
		case <-l.target.Changed():
		case <-timer.C:
		}
		timer.Reset(l.step(time.Now()))
	}
}

// drain waits for the batches on their way.
func (l *Loop) drain() {
	for l.free < l.cfg.Workers {
		l.land(<-l.results)
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
	l.care(local)
	for l.free > 0 {
		b, ok := l.next(now, local)
		if !ok {
			break
		}
		l.free--
		if b.own != nil {
			l.sick++
		}
		l.work <- b
	}
	return l.wait(local)
}

// carePause is how often the applications that are not healthy are looked after.
const carePause = 20 * time.Millisecond

// care looks after the applications that are not healthy: lets those go on that the target accepts again, gives held
// ones a probe, and notes which have a batch to ring.
func (l *Loop) care(local time.Time) {
	if len(l.applications) == 0 || local.Sub(l.cared) < carePause {
		return
	}
	l.cared = local
	l.ready = l.ready[:0]
	for name, a := range l.applications {
		switch {
		case a.health == absent && l.target.Accepts(name.Value()):
			l.recover(a)
		case a.health == held && !a.busy && len(a.parked) == 0 && !local.Before(a.next):
			a.next = local.Add(l.cfg.Probe)
			l.heap.Hold(name, 1)
		case a.ready(local):
			l.ready = append(l.ready, a)
		}
	}
}

// wait returns how long the loop may sleep.
func (l *Loop) wait(local time.Time) time.Duration {
	wait := maxSleep
	if len(l.applications) > 0 {
		wait = carePause
	}
	if due, ok := l.heap.Head(); ok && l.free > 0 {
		wait = min(wait, l.time.Until(due))
	}
	return max(wait, 0)
}

// next returns the next batch that is due: of a suspect or held application, of which one rings at a time, or of all the
// others together.
func (l *Loop) next(now clock.Instant, local time.Time) (batch, bool) {
	for l.sick == 0 && len(l.ready) > 0 {
		a := l.ready[0]
		l.ready = l.ready[1:]
		if l.applications[a.name] == a && a.ready(local) {
			return batch{entries: a.take(), own: a}, true
		}
	}
	return l.nextShared(now)
}

// nextShared pops what is due of healthy applications, and parks or lets go what it meets of others.
func (l *Loop) nextShared(now clock.Instant) (batch, bool) {
	shared := make([]entry, 0, 16)
	for len(shared) < l.cfg.BatchRows {
		from := len(shared)
		shared = l.heap.Pop(shared, now, l.cfg.BatchRows-from)
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
		a := l.applicationOf(e.application)
		switch {
		case a == nil:
			kept = append(kept, e)
		case !a.park(e):
			gone = append(gone, e)
		}
	}
	if len(gone) > 0 {
		l.heap.Land(gone, false)
	}
	return kept
}

// applicationOf returns the application if it is not healthy, noticing here that the target does not accept it.
func (l *Loop) applicationOf(name unique.Handle[string]) *application {
	a := l.applications[name]
	if a == nil && !l.target.Accepts(name.Value()) {
		a = l.remember(name, absent)
		a.letGo = true
		l.heap.Hold(name, 0)
	}
	return a
}

func (l *Loop) remember(name unique.Handle[string], h health) *application {
	a := &application{name: name, health: h, batch: l.cfg.BatchRows}
	l.applications[name] = a
	l.publish()
	return a
}

// land takes a batch back: what became of it, of its applications, and what is to be rung again.
func (l *Loop) land(r result) {
	l.free++
	if r.own != nil {
		l.sick--
		r.own.busy = false
	}
	if r.err != nil {
		l.failed(r)
		return
	}
	l.failures = 0
	l.reader.Offer(r.again)
	l.heap.Land(r.back, true)
	l.heap.Land(r.entries, false)
	l.judge(r)
	if r.own != nil {
		l.refill(r.own)
	}
}

// failed takes back a batch that the database failed, and pauses.
func (l *Loop) failed(r result) {
	l.metrics.databaseErrors.Inc()
	if !errors.Is(r.err, context.Canceled) {
		l.log.Warn("could not ring a batch", "count", len(r.entries), "claimed", r.lost, "err", r.err)
	}
	l.heap.Land(r.entries, !r.lost)
	const first, last = 50 * time.Millisecond, 2 * time.Second
	pause := min(last, first<<min(l.failures, 10))
	l.failures++
	l.pauseUntil = time.Now().Add(pause/2 + rand.N(pause/2))
}

// judge updates the health of the applications that r had trouble with, or that r was all about.
func (l *Loop) judge(r result) {
	now := time.Now()
	for name, f := range r.fared {
		a := l.applications[name]
		if a == nil {
			if f.failed == 0 {
				continue
			}
			a = l.remember(name, suspect)
			l.log.Warn("application rings apart from the others", "application", name.Value(), "reason", f.reason)
		}
		before := a.health
		well := a.judge(*f, now, l.cfg.Probe, r.own == a)
		switch {
		case well && a.batch < l.cfg.BatchRows && before == suspect:
			a.batch = min(2*a.batch, l.cfg.BatchRows)
		case well:
			l.recover(a)
		case before != held && a.health == held:
			l.hold(a)
		}
	}
}

// hold leaves an application's alarms in the database but for one probe at a time.
func (l *Loop) hold(a *application) {
	l.log.Warn("application is held behind a probe: its rings come back", "application", a.name.Value(), "reason", a.reason)
	l.heap.Hold(a.name, 0)
	a.letGo = true
	l.publish()
	if len(a.parked) > 1 {
		l.heap.Land(a.parked[1:], false)
		a.parked = a.parked[:1]
	}
}

// recover makes an application healthy: what was held of it is due at once.
func (l *Loop) recover(a *application) {
	l.log.Info("application rings with the others again", "application", a.name.Value(), "was", a.health.String())
	delete(l.applications, a.name)
	l.publish()
	l.heap.Unhold(a.name)
	l.heap.Land(a.parked, true)
	a.parked = nil
	if a.letGo {
		l.reader.Rewind()
	}
}

// refill has what was let go of a suspect application read again when its parked entries run low.
func (l *Loop) refill(a *application) {
	now := time.Now()
	if !a.letGo || a.health != suspect || len(a.parked) > maxParked/2 || l.applications[a.name] != a || now.Sub(l.rewound) < rewindPause {
		return
	}
	l.rewound = now
	a.letGo = false
	l.reader.Rewind()
}

// Unwell is an application that does not ring with the others, for people to see.
type Unwell struct {
	Application string
	Health      string // suspect, held or absent
	Reason      string
}

// Unwell returns the applications that do not ring with the others. Safe for concurrent use.
func (l *Loop) Unwell() []Unwell {
	if u := l.unwell.Load(); u != nil {
		return *u
	}
	return nil
}

// publish makes the applications' health known outside the loop.
func (l *Loop) publish() {
	unwell := make([]Unwell, 0, len(l.applications))
	counts := map[health]int{}
	for name, a := range l.applications {
		unwell = append(unwell, Unwell{Application: name.Value(), Health: a.health.String(), Reason: a.reason})
		counts[a.health]++
	}
	l.unwell.Store(&unwell)
	l.metrics.unwell(counts)
}

// report counts and logs alarms that ended without a ring.
func (l *Loop) report(ended []store.Ended) {
	for i := range ended {
		l.metrics.ended.WithLabelValues(ended[i].State.String()).Inc()
		l.log.Debug("alarm ended without a ring", "application", ended[i].Application, "business_id", ended[i].BusinessID,
			"alarm_id", ended[i].ID, "state", ended[i].State.String(), "reason", ended[i].Reason)
	}
}
