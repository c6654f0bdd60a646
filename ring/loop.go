package ring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Database is the part of a store that the Loop uses.
type Database interface {
	store.Claimer
	store.Expirer
	// HoldsClaims reports whether a claim may hold a transaction.
	HoldsClaims() bool
}

// Time is the database's clock.
type Time interface {
	// AtLeast returns a lower bound of the clock, as long as the clock keeps time. Claims check it against the clock
	// itself.
	AtLeast() (clock.Instant, error)
	// Until returns the time until an instant. If that is soon or has passed, the clock is followed more closely.
	Until(i clock.Instant) time.Duration
	// Floor returns a lower bound that also holds while clocks are slewed. It is up to 154 ms behind AtLeast.
	Floor() (clock.Instant, error)
}

// Feeder brings alarms into the heap.
type Feeder interface {
	// Offer takes rows that are due again. It ignores rows beyond the watermark, because a loader reads them later.
	Offer(rows []store.Due)
	// Owned returns the shards that this node owns. The node ends their expired alarms.
	Owned() []int
}

// Deps are the parts that the Loop works with.
type Deps struct {
	Heap     *Heap
	Database Database
	Routes   []*Route
	Router   Router // nil: all applications ring by the only route
	Time     Time
	Feeder   Feeder
	// TargetName returns the target that the alarms of an addressee name, for people, as clock.TargetText does. Nil:
	// the kind of the target alone.
	TargetName func(to store.Addressee) string
	Timer      func() Timer // makes the timer that wakes the loop; nil: a timer of the Go runtime
	Hold       func() bool  // reports whether the process may start no claim now, because its settings may be old; must not block. Nil: it always may
	Log        *slog.Logger
	Registerer prometheus.Registerer
	// Observe is called once for each delivery, after its end, and for late outcomes. It must not block, and must not
	// keep or change the slices. Workers call it at the same time. Nil: no one observes.
	Observe func(Delivery)
	// Occurrences is called with the occurrences of repeating alarms that a claim or a settlement has ended. It must not
	// block. Goroutines call it at the same time. Nil: they are not counted.
	Occurrences func(clock.OccurrenceCounts)
}

// Loop rings due alarms. One goroutine decides which alarms ring next, and a few workers ring them.
type Loop struct {
	cfg      Config
	heap     *Heap
	database Database
	crews    crews
	time     Time
	feeder   Feeder
	timer    func() Timer
	hold     func() bool // see Deps.Hold; not nil
	log      *slog.Logger
	metrics  *metrics
	observer func(Delivery) // Deps.Observe

	occurrences func(clock.OccurrenceCounts) // Deps.Occurrences

	results       chan result       // results of batches; room for one per worker
	events        chan laneEvent    // changes of idle workers' lanes; unbuffered
	earlyConfirms chan earlyConfirm // applications whose rings are all confirmed before their round ends
	changed       chan struct{}     // capacity 1: a target has changed
	lateTallies   chan lateTallies  // tallies of late outcomes; unbuffered
	rerouted      chan struct{}     // capacity 1: pendingReroute has a router
	stopping      <-chan struct{}   // closed when Run must end; set by Run
	lateClaims    sync.WaitGroup    // a goroutine for each claim with late rings
	lateWrites    chan struct{}     // capacity lateConnections: the late claims that write now
	lateContext   context.Context   //nolint:containedctx // ends some seconds after stopping, and the late claims with it; set by Run

	// owned by the goroutine of Run
	pauseUntil time.Time // no batch is handed out before; set after a failure of the database
	failures   int       // consecutive batches that failed in the database
	quarantine quarantine

	lastBatch     uint64              // number of the last batch that was handed out
	underWay      map[uint64]struct{} // numbers of the batches that were handed out and are not complete
	confirmations []confirmation      // versions of the settings to confirm, ascending

	confirmed      atomic.Int64 // result of Confirmed
	rerouteMu      sync.Mutex
	pendingReroute rerouting // zero: none

	routing      atomic.Pointer[crews]        // the crews with the present router, for other goroutines
	claimFailure atomic.Pointer[claimFailure] // nil: the last batch did not fail in the database
	endBy        atomic.Pointer[time.Time]    // when the process ends; nil: unknown
}

// New returns a Loop. It does no work before Run.
func New(cfg Config, deps Deps) (*Loop, error) {
	if err := errors.Join(cfg.Validate(), validateRoutes(cfg.Workers, deps.Routes, deps.Router)); err != nil {
		return nil, err
	}
	if deps.Hold == nil {
		deps.Hold = func() bool { return false }
	}
	if deps.Timer == nil {
		deps.Timer = newPlainTimer
	}
	m := newMetrics(deps.Registerer, deps.Heap)
	l := &Loop{
		cfg: cfg, heap: deps.Heap, database: deps.Database, crews: newCrews(cfg, deps, m), time: deps.Time,
		feeder: deps.Feeder,
		timer:  deps.Timer, log: deps.Log, metrics: m, observer: deps.Observe,
		occurrences:   deps.Occurrences,
		results:       make(chan result, Connections(cfg.Workers, len(deps.Routes))),
		earlyConfirms: make(chan earlyConfirm, len(deps.Routes)*QuarantineWorkers*cfg.BatchRows),
		events:        make(chan laneEvent), changed: make(chan struct{}, 1), lateTallies: make(chan lateTallies),
		lateWrites: make(chan struct{}, lateConnections), rerouted: make(chan struct{}, 1),
		underWay: map[uint64]struct{}{}, hold: deps.Hold,
	}
	l.quarantine = quarantine{
		cfg: cfg, heap: deps.Heap, crews: &l.crews, log: deps.Log, metrics: m,
		watched:   map[addressee]*watched{},
		leftovers: map[leftoverKey]*watched{},
	}
	l.routing.Store(l.crews.frozen(deps.Router))
	l.heap.splitByRoute(len(deps.Routes), l.crews.routeIndex(deps.Router))
	return l, nil
}

// Quarantined returns a sample of the applications in quarantine, and the number of all of them. Safe for concurrent
// use.
func (l *Loop) Quarantined() (sample []Quarantined, all int) { return l.quarantine.Quarantined() }

// maxSleep bounds every sleep, so that a step of a clock delays alarms by no more than that.
const maxSleep = time.Second

// Run rings until ctx ends. It returns when the batches under way are settled, and late rings too.
func (l *Loop) Run(ctx context.Context) error {
	l.stopping = ctx.Done()
	lateContext, endLate := context.WithCancel(context.WithoutCancel(ctx))
	defer endLate()
	defer context.AfterFunc(ctx,
		func() { time.AfterFunc(time.Until(l.lateStop(l.cfg.ReplyTimeout))+lateStopGrace, endLate) })()
	l.lateContext = lateContext
	var workers sync.WaitGroup
	defer l.lateClaims.Wait() // after the workers, which begin them
	defer workers.Wait()      // for the batches under way; results has room for all of them
	defer l.crews.close()
	for _, c := range l.crews.all {
		l.showPace(c)
		c.run(ctx, l, &workers)
	}
	workers.Go(func() { l.expire(ctx) })
	l.applyReroute() // before the first entry is popped
	timer := l.timer()
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case r := <-l.results:
			l.complete(r)
		case c := <-l.earlyConfirms:
			l.quarantine.applyEarly(c, time.Now())
		case t := <-l.lateTallies:
			l.quarantine.applyLate(t)
		case <-l.rerouted:
			l.applyReroute()
		case e := <-l.events:
			l.laneChanged(e)
		case <-l.heap.Wake():
		case <-l.changed:
			l.quarantine.reviewed = time.Time{}
		case <-timer.C():
		}
		timer.Reset(l.step(time.Now()))
		l.updateConfirmed()
		l.quarantine.publish()
	}
}

// laneChanged notes that the lane of an idle worker opened or was lost. A batch that was handed out for the lost lane
// goes back to the heap: it is not claimed yet.
func (l *Loop) laneChanged(e laneEvent) {
	free, work := &e.crew.free, e.crew.work
	if e.quarantine {
		free, work = &e.crew.freeQuarantine, e.crew.quarantineWork
	}
	if e.open {
		*free++
		return
	}
	*free--
	if *free < 0 {
		select {
		case b := <-work:
			l.complete(result{batch: b, unclaimed: true})
		default: // another worker has taken it
		}
	}
}

// step hands out due alarms to the free workers, and returns the time until the next step.
func (l *Loop) step(localNow time.Time) time.Duration {
	if wait := l.pauseUntil.Sub(localNow); wait > 0 {
		return min(wait, maxSleep)
	}
	if !l.crews.lookAtTargets() {
		return maxSleep
	}
	if l.hold() {
		return maxSleep / 10
	}
	now, err := l.time.AtLeast()
	if err != nil {
		return maxSleep / 10
	}
	l.quarantine.review(now, localNow)
	l.crews.byTurns(func(c *crew) bool { return l.handOutBatch(c, now) })
	for _, c := range l.crews.all {
		l.handOutRounds(c, localNow)
	}
	return l.wait()
}

// handOutBatch hands out a batch of healthy applications of one route. It reports false if the route has no worker for
// it, or no due alarms.
func (l *Loop) handOutBatch(c *crew, now clock.Instant) bool {
	if !c.usable || !l.crews.hasWorker(c) {
		return false
	}
	b, ok := l.nextSharedBatch(c, now)
	if ok {
		c.free--
		c.busy++
		l.handOut(c.work, b)
		l.time.Until(now) // while alarms ring, the clock is followed closely
	}
	return ok
}

// handOutRounds hands out the rounds of the quarantine of one route. One worker is always left for rounds that are not
// silent.
func (l *Loop) handOutRounds(c *crew, localNow time.Time) {
	for c.usable && c.freeQuarantine > 0 {
		b, ok := l.quarantine.nextRound(c, localNow, c.pace.rows, c.silentRounds < QuarantineWorkers-1)
		if !ok {
			return
		}
		if b.silent {
			c.silentRounds++
		}
		c.freeQuarantine--
		l.handOut(c.quarantineWork, b)
	}
}

// wait returns the time for which the loop may sleep.
func (l *Loop) wait() time.Duration {
	wait := maxSleep
	if len(l.quarantine.watched)+len(l.quarantine.leftovers) > 0 {
		wait = min(wait, l.quarantine.reviewInterval())
	}
	for _, c := range l.crews.all {
		due, ok := l.heap.head(c.index)
		if !ok {
			continue
		}
		if left := l.time.Until(due); c.usable && l.crews.hasWorker(c) {
			wait = min(wait, left)
		}
	}
	return wait
}

// nextSharedBatch pops due entries of one route. It returns the entries of healthy applications, and parks, drops or
// defers the others.
func (l *Loop) nextSharedBatch(c *crew, now clock.Instant) (batch, bool) {
	shared := make([]entry, 0, 16)
	for len(shared) < c.pace.rows {
		from := len(shared)
		shared = l.heap.pop(shared, c.index, now, c.pace.rows-from)
		if len(shared) == from {
			break
		}
		shared = l.admit(shared, from, now)
	}
	return batch{crew: c, entries: shared, decreases: c.pace.decreases}, len(shared) > 0
}

// admit goes through the entries from index first on. It keeps the entries of healthy applications, and parks, drops or
// defers the others.
func (l *Loop) admit(entries []entry, first int, now clock.Instant) []entry {
	kept, localNow := entries[:first], time.Now()
	var dropped, later []entry
	for _, e := range entries[first:] {
		switch l.quarantine.admit(e, localNow) {
		case admitShared:
			kept = append(kept, e)
		case admitParked:
		case admitLater:
			later = append(later, e)
		case admitLeftOut:
			dropped = append(dropped, e)
		case admitDeferred:
			e.popAt = now.Add(l.cfg.Probe)
			later = append(later, e)
		}
	}
	l.heap.drop(dropped)
	if len(later) > 0 {
		l.heap.complete(later, true)
	}
	return kept
}

// complete takes the result of a batch: it frees the worker and the applications, and completes each claim's entries.
func (l *Loop) complete(r result) {
	delete(l.underWay, r.number)
	free := &r.crew.free
	if r.quarantined != nil {
		free = &r.crew.freeQuarantine
	} else {
		r.crew.busy--
	}
	for _, a := range r.quarantined {
		a.batches--
	}
	if r.silent {
		r.crew.silentRounds--
	}
	if !r.laneBroken {
		*free++
	}
	if r.unclaimed {
		l.heap.complete(r.entries, true)
		return
	}
	l.completeRound(r)
	if r.atMostOnce != nil {
		l.completeRound(*r.atMostOnce)
	}
}

// completeRound takes the result of one claim: rows that ring again, entries that go back to the heap, and the tallies.
func (l *Loop) completeRound(r result) {
	if r.err != nil {
		l.backOff(r)
		return
	}
	l.failures = 0
	l.claimFailure.Store(nil)
	r.crew.pace.note(r.load, r.decreases)
	l.showPace(r.crew)
	l.feeder.Offer(l.heap.expectReoffer(r.reoffered)) // before complete: a set that was committed after the claim is newer
	l.leaveElsewhere(&r)
	l.heap.complete(r.putBack, true)
	l.heap.complete(r.entries, false)
	l.quarantine.applyResult(r)
}

func (l *Loop) showPace(c *crew) {
	l.metrics.batchLimit.WithLabelValues(c.Name).Set(float64(c.pace.rows))
}

// claimBackoff is the pause of the loop after consecutive batches that failed in the database.
var claimBackoff = clock.Backoff{First: 50 * time.Millisecond, Last: 2 * time.Second}

// backOff takes back a batch that failed in the database, and pauses. The next batches are smaller.
func (l *Loop) backOff(r result) {
	l.metrics.databaseErrors.Inc()
	if !errors.Is(r.err, context.Canceled) {
		l.log.Warn("could not ring a batch", "count", len(r.entries), "claimed", r.settleFailed, "err", r.err)
	}
	l.heap.complete(r.entries, true) // the next claim passes over rows that were settled after all
	r.crew.pace.noteFailure(r.decreases)
	l.showPace(r.crew)
	if l.failures == 0 {
		l.claimFailure.Store(&claimFailure{cause: r.err, since: time.Now()})
	}
	l.pauseUntil = time.Now().Add(claimBackoff.Wait(l.failures))
	l.failures++
}

// claimFailure is a series of consecutive batches that failed in the database.
type claimFailure struct {
	cause error     // error of the first batch
	since time.Time // time at which the first batch failed
}

// claimFailureTolerance is the time for which all batches must fail before CheckClaims returns an error.
const claimFailureTolerance = 5 * time.Second

// CheckClaims returns an error if the database has failed every batch for claimFailureTolerance, else nil. Safe for
// concurrent use.
func (l *Loop) CheckClaims() error {
	t := l.claimFailure.Load()
	if t == nil || time.Since(t.since) < claimFailureTolerance {
		return nil
	}
	return fmt.Errorf("no batch of alarms could be claimed and settled for %s: %w",
		time.Since(t.since).Round(time.Second), t.cause)
}

// countFates counts the ends of alarms and of occurrences that a committed settlement has written.
func (l *Loop) countFates(rings []clock.Ring, fates []clock.Fate) {
	var counts clock.OccurrenceCounts
	for i := range fates {
		f, r := &fates[i], &rings[i]
		counts.Add(f.Progress.Since(r.Before.Progress.OccurrenceCounts))
		if f.NextTryTime == clock.NoInstant && f.State != clock.Rung {
			l.countEnded([]store.EndedAlarm{{Key: r.Key, ID: r.AlarmID, State: f.State, Reason: f.LastError}})
		}
	}
	l.countOccurrences(counts)
}

func (l *Loop) countOccurrences(counts clock.OccurrenceCounts) {
	if l.occurrences != nil && counts != (clock.OccurrenceCounts{}) {
		l.occurrences(counts)
	}
}

// countEnded counts and logs alarms that expired, died, or paused because their occurrences failed.
func (l *Loop) countEnded(ended []store.EndedAlarm) {
	for i := range ended {
		l.metrics.ended.WithLabelValues(ended[i].State.String()).Inc()
		l.log.Debug("alarm ended without success", "application", ended[i].Application, "business_id",
			ended[i].BusinessID,
			"alarm_id", ended[i].ID, "state", ended[i].State.String(), "reason", ended[i].Reason)
	}
}
