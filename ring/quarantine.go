package ring

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// QuarantineWorkers is the number of workers for applications in quarantine. Each has a lane and a database
	// connection. At most QuarantineWorkers-1 silent rounds are under way at once.
	QuarantineWorkers = 2
	// reviewPause is the time between two reviews of the applications in quarantine, while there are fewer than 1000.
	reviewPause = 20 * time.Millisecond
	// maxQuarantined bounds the applications in quarantine; each route has an equal part. Beyond it an application with
	// failing rings stays with the healthy ones, and the entries of an application that the target does not accept stay
	// in the heap.
	maxQuarantined = 1 << 14
	// maxParkedAll bounds the parked entries of all applications; each route has an equal part. Each application may
	// park one entry beyond it.
	maxParkedAll = 1 << 16
	// forgetIdleAfter is the time without an alarm to ring after which a suspect or held application is forgotten.
	forgetIdleAfter = 10 * time.Second
	// absentForgetAfter is the time without an alarm after which an absent application is forgotten. Until then /readyz
	// and the metrics show it.
	absentForgetAfter = time.Minute
	// maxShown bounds the applications that Quarantined returns.
	maxShown = 16
)

// quarantine keeps the state of the applications that are not healthy, and decides when their entries ring. It belongs
// to the goroutine of Loop.Run. Only the methods Quarantined, stateOf and leavesAlarms may be called by other
// goroutines.
type quarantine struct {
	cfg     Config
	heap    *Heap
	crews   *crews
	log     *slog.Logger
	metrics *metrics

	watched   map[addressee]*watched   // applications in quarantine
	leftovers map[leftoverKey]*watched // entries of tries in doubt at former routes; see leftover.go
	counts    [healths]int             // number of applications in quarantine, by health
	ready     []*watched               // applications that can have a batch, as of the last review; least recently served first
	rounds    uint64                   // rounds handed out so far
	reviewed  time.Time                // time of the last review; zero: review at the next step
	changed   bool                     // the published applications are stale
	shown     []*watched               // applications of the published sample
	logLimit  logLimit

	published atomic.Pointer[publishedApplications] // result of Quarantined; nil before the first publish
	states    sync.Map                              // from addressee to Quarantined, of each application in quarantine that is not rationed; results of stateOf
	unasked   atomic.Bool                           // as of the last review, due alarms wait for a target to ask for them (application.unasked)
}

// publishedApplications is the result of Quarantined.
type publishedApplications struct {
	sample []Quarantined
	all    int
}

// Quarantined describes an application in quarantine, for people.
type Quarantined struct {
	Application string
	Target      string // target that the concerned alarms name, as Deps.TargetName has it; empty: they name none
	Health      string // suspect, held or absent
	Reason      string // reason of the last failure; of an absent application why no target accepts it
}

// review goes through all applications of usable routes, unless the last review is recent. It readmits an absent
// application when the target accepts it, and makes an application absent when the target stops accepting it. It
// forgets idle applications, and asks for rows of applications that can park entries again. It collects the
// applications that can have a batch in ready.
func (q *quarantine) review(now clock.Instant, localNow time.Time) {
	if len(q.watched)+len(q.leftovers) == 0 {
		q.unasked.Store(false)
		return
	}
	if localNow.Sub(q.reviewed) < q.reviewInterval() {
		return
	}
	q.reviewed = localNow
	q.ready = q.ready[:0]
	unasked := false
	for name, a := range q.watched {
		if !a.crew.usable {
			continue
		}
		refusal := q.crews.accepts(name.Value())
		switch {
		case a.health == absent && refusal == nil:
			q.readmit(a)
		case a.health != absent && refusal != nil:
			q.changeHealth(a, absent)
			a.lastActive, a.awaitingRow = localNow, false
			q.noteAbsence(a, refusal)
		case a.idle(localNow):
			q.forget(a)
		default:
			q.refill(a, now, localNow)
			q.addIfReady(a, localNow)
			unasked = unasked || a.unasked(localNow)
		}
	}
	q.unasked.Store(unasked)
	q.reviewLeftovers(localNow)
	slices.SortFunc(q.ready, func(a, b *watched) int { return cmp.Compare(a.lastRound, b.lastRound) })
}

// reviewInterval returns the time between two reviews. It grows with the number of applications.
func (q *quarantine) reviewInterval() time.Duration {
	return reviewPause * time.Duration(1+(len(q.watched)+len(q.leftovers))/1000)
}

// refill lets rows of an application come in when few of its entries are parked. For an absent application it asks for
// one row when none has come for half of absentForgetAfter, to see whether the application still has due alarms.
func (q *quarantine) refill(a *watched, now clock.Instant, localNow time.Time) {
	switch {
	case a.suspended:
		q.keepFilled(a)
	case !a.restricted:
	case (a.health == suspect || a.health == rationed) && len(a.parked) <= maxParked/2:
		a.restricted = false
		q.heap.Unrestrict(a.name)
	case a.health == held && len(a.parked) <= maxProbes/2 && localNow.Sub(a.askedAt) >= q.cfg.Probe:
		a.askedAt = localNow
		q.heap.Restrict(a.name, a.free(), now)
	case a.health == absent && !a.awaitingRow && localNow.Sub(a.lastActive) >= absentForgetAfter/2:
		a.askedAt, a.awaitingRow = localNow, true
		q.heap.Restrict(a.name, 1, now)
	}
}

// nextRound returns the next round of a route's quarantine; ok is false if there is none. The round holds applications
// of one failureKind, beginning with the application that has waited longest. Each gets its part of the rows, so that
// none waits for another. maxRows is the most rows of the round: fewer than a batch while the database is slow. Without
// allowSilent nextRound returns no round of silent applications.
func (q *quarantine) nextRound(c *crew, localNow time.Time, maxRows int, allowSilent bool) (b batch, ok bool) {
	rest := q.ready[:0]
	for _, a := range q.ready {
		switch {
		case !q.knows(a) || !a.ready(localNow):
		case a.ringsBy() != c, len(b.quarantined) == maxRows, !allowSilent && a.failureKind == silent,
			len(b.quarantined) > 0 && !b.quarantined[0].canShareRoundWith(a):
			rest = append(rest, a)
		default:
			b.quarantined = append(b.quarantined, a)
		}
	}
	clear(q.ready[len(rest):])
	if q.ready = rest; len(b.quarantined) == 0 {
		return b, false
	}
	q.rounds++
	b.crew, b.decreases = c, c.pace.decreases
	part := max(1, maxRows/len(b.quarantined))
	b.quarantined = slices.DeleteFunc(b.quarantined, func(a *watched) bool {
		taken := a.take(part, localNow)
		if len(taken) == 0 { // its ration has fallen meanwhile
			a.batches--
			return true
		}
		a.lastRound = q.rounds
		a.crew.parked -= len(taken)
		b.entries = append(b.entries, taken...)
		return false
	})
	if len(b.quarantined) == 0 {
		return b, false
	}
	for _, a := range b.quarantined {
		q.addIfReady(a, localNow) // behind the others, for a batch beside this one
	}
	b.silent = b.quarantined[0].failureKind == silent
	b.leftovers, b.anyTarget = b.quarantined[0].leftover, b.quarantined[0].substitute != nil
	return b, true
}

// admission is the decision about a due entry.
type admission int8

const (
	admitShared   admission = iota // the entry rings in a batch of healthy applications
	admitParked                    // the entry waits for a round of the quarantine
	admitLater                     // the entry goes back to the heap, which keeps it until the application can park more
	admitLeftOut                   // the entry leaves the heap; its alarm waits in the database
	admitDeferred                  // the entry goes back to the heap for Config.Probe
)

// admit decides about the due entry e, and parks it if the decision is admitParked.
func (q *quarantine) admit(e entry, localNow time.Time) admission {
	a := q.watched[e.addressee]
	if a == nil {
		refusal := q.crews.accepts(e.addressee.Value())
		if refusal == nil && q.crews.of(e.addressee.Value()).rationed == nil {
			return admitShared
		}
		health := rationed
		if refusal != nil {
			health = absent
		}
		if a = q.add(e.addressee, health, localNow); a == nil {
			return admitDeferred
		}
		if refusal != nil {
			q.noteAbsence(a, refusal)
		}
	}
	a.lastActive, a.awaitingRow = localNow, false
	mayPark := a.crew.parked < q.crews.share(maxParkedAll) || len(a.parked) == 0
	if mayPark && a.park(e) {
		a.crew.parked++
		if a.health == rationed || a.crowded() {
			q.addNow(a, localNow)
		}
		return admitParked
	}
	if mayPark && (a.health == suspect || a.health == rationed) {
		q.suspend(a)
		return admitLater
	}
	q.restrict(a)
	return admitLeftOut
}

// addNow adds an application that can have a batch before the next review.
func (q *quarantine) addNow(a *watched, localNow time.Time) {
	if !slices.Contains(q.ready, a) {
		q.addIfReady(a, localNow)
	}
}

// suspend makes the heap keep the application's entries: they ring soon, and need not be read again. The limit of all
// parked entries bounds the number of such applications, so their entries yield to those of the others.
func (q *quarantine) suspend(a *watched) {
	a.suspended = true
	q.heap.suspend(a.name)
}

// keepFilled ends suspend when few entries are parked.
func (q *quarantine) keepFilled(a *watched) {
	if len(a.parked) <= maxParked/2 {
		q.resume(a)
	}
}

// resume ends suspend.
func (q *quarantine) resume(a *watched) {
	if a.suspended {
		a.suspended = false
		q.heap.resume(a.name)
	}
}

// restrict makes the heap leave the application's rows out.
func (q *quarantine) restrict(a *watched) {
	if !a.restricted {
		a.restricted = true
		q.heap.Restrict(a.name, 0, 0)
	}
}

// noteAbsence notes why an application is absent, and logs it. A paused application needs no line: a person knows of
// it.
func (q *quarantine) noteAbsence(a *watched, refusal error) {
	a.reason = refusal.Error()
	q.show(a)
	to := a.name.Value()
	switch {
	case errors.Is(refusal, errPaused):
	case errors.Is(refusal, errNoRoute):
		q.logEvent(slog.LevelError, "application has no route: its alarms wait", "application", to.Application,
			"target", q.crews.nameOf(to), "reason", a.reason)
	default:
		q.logEvent(slog.LevelWarn, "due alarms of an application wait", "application", to.Application, "target",
			q.crews.nameOf(to), "reason", a.reason)
	}
}

// show makes the present state of an application visible to other goroutines.
func (q *quarantine) show(a *watched) {
	q.changed = true
	if a.health == rationed {
		q.states.Delete(a.name)
		return
	}
	q.states.Store(a.name, q.describe(a))
}

// stateOf returns the state of an application in quarantine; the zero value if it is not there, or is rationed. Safe
// for concurrent use.
func (q *quarantine) stateOf(name addressee) Quarantined {
	state, _ := q.states.Load(name)
	shown, _ := state.(Quarantined)
	return shown
}

// add puts an application into quarantine with the given health. It returns nil if the route has no place left in the
// quarantine.
func (q *quarantine) add(name addressee, h health, localNow time.Time) *watched {
	c := q.crews.of(name.Value())
	if c.quarantined >= q.crews.share(maxQuarantined) {
		return nil
	}
	c.quarantined++
	a := &watched{name: name, crew: c, health: h, batchRows: q.cfg.BatchRows, lastRound: q.rounds,
		lastActive: localNow}
	q.watched[name] = a
	q.counts[h]++
	q.show(a)
	return a
}

// changeHealth gives an application another health, for which fewer entries stay parked.
func (q *quarantine) changeHealth(a *watched, h health) {
	q.counts[a.health]--
	q.counts[h]++
	a.health = h
	q.show(a)
	q.resume(a)
	q.restrict(a)
	excess := a.removeExcess()
	a.crew.parked -= len(excess)
	q.heap.drop(excess)
}

// applyResult updates the health of the applications that r has tallies of.
func (q *quarantine) applyResult(r result) {
	localNow := time.Now()
	if r.leftovers {
		q.noteLeftovers(r, localNow)
		return
	}
	for name, f := range r.tallies {
		if q.hasMoved(name, r.crew) {
			continue
		}
		q.applyTally(name, *f, localNow, r.quarantined != nil)
	}
}

// applyLate updates the health of the applications of late outcomes. A late confirm ends the pause of a suspect
// application. It stays in quarantine, so that a backlog for its slow queue or receiver does not take the shared
// workers. A late confirm makes a held application suspect. On a route with SeparateReplies it makes it healthy,
// because there a slow receiver delays no other application's rings. The next batch has more rows by the number of late
// outcomes, because the receiver has room for so many more rings.
func (q *quarantine) applyLate(t lateTallies) {
	localNow := time.Now()
	for name, f := range t.byAddressee {
		if q.hasMoved(name, t.crew) {
			continue
		}
		a := q.watched[name]
		f.untaken = 0 // a late ring leaves its place in any case, so no batch becomes smaller
		if a != nil {
			a.batchRows = min(a.batchRows+f.taken, q.cfg.BatchRows)
		}
		if a == nil || t.crew.rationed != nil || f.failed > 0 || f.confirmed == 0 {
			q.applyTally(name, *f, localNow, false)
			continue
		}
		a.lastActive, a.nextTry, a.undeliveredRounds, a.unconfirmedRounds = localNow, localNow, 0, 0
		switch {
		case a.health == held && t.crew.SeparateReplies:
			q.readmit(a)
		case a.health == held:
			q.changeHealth(a, suspect)
		}
	}
}

// applyEarly takes an earlyConfirm.
func (q *quarantine) applyEarly(c earlyConfirm, localNow time.Time) {
	if !c.leftover && !q.hasMoved(c.addressee, c.crew) {
		q.applyTally(c.addressee, tally{confirmed: c.rings}, localNow, true)
	}
}

// hasMoved reports whether the application rings by another route than the crew's. Then outcomes at the crew's target
// say nothing about it.
func (q *quarantine) hasMoved(name addressee, c *crew) bool {
	return q.crews.of(name.Value()) != c
}

// applyTally updates the health of one application after a round. Failures put a healthy application into quarantine.
func (q *quarantine) applyTally(name addressee, t tally, localNow time.Time, quarantineRound bool) {
	a := q.watched[name]
	if q.crews.of(name.Value()).rationed != nil {
		q.reviewed = time.Time{} // the application's next round is at once
		if a != nil {
			a.lastActive = localNow
		}
		return
	}
	if a == nil {
		if t.failed == 0 {
			return
		}
		if a = q.add(name, suspect, localNow); a == nil {
			return
		}
		q.logEvent(slog.LevelWarn, "application put in quarantine", "application", name.Value().Application, "target",
			q.crews.nameOf(name.Value()), "reason", t.reason)
	}
	a.lastActive = localNow
	before, reason := a.health, a.reason
	recovered := a.noteTally(t, localNow, q.cfg.Probe, quarantineRound)
	switch {
	case recovered && before == suspect && a.hasBacklog() && (a.crowded() || a.batchRows < q.cfg.BatchRows):
		a.batchRows = min(2*a.batchRows, q.cfg.BatchRows)
	case recovered:
		q.readmit(a)
	case before != held && a.health == held:
		q.logEvent(slog.LevelWarn, "application is held: only probes are tried", "application",
			a.name.Value().Application, "target", q.crews.nameOf(a.name.Value()), "reason", a.reason)
		a.health = before
		q.changeHealth(a, held)
	case a.reason != reason:
		q.show(a)
	}
	if a.crowded() && q.knows(a) {
		q.keepFilled(a)
		q.addNow(a, localNow)
	}
}

// readmit makes an application healthy. Its parked and missing alarms may ring at once.
func (q *quarantine) readmit(a *watched) {
	q.logEvent(slog.LevelInfo, "application left quarantine", "application", a.name.Value().Application, "target",
		q.crews.nameOf(a.name.Value()), "was", a.health.String())
	q.forget(a)
}

// forget ends the quarantine of an application. Its next alarm rings in a shared batch.
func (q *quarantine) forget(a *watched) {
	delete(q.watched, a.name)
	q.counts[a.health]--
	q.changed = true
	q.states.Delete(a.name)
	q.resume(a)
	q.heap.Unrestrict(a.name)
	a.crew.quarantined--
	a.crew.parked -= len(a.parked)
	q.heap.complete(a.parked, true)
	a.parked = nil
}

// logEvent logs an event of one application. It drops lines beyond the limit, because thousands of applications may
// have one.
func (q *quarantine) logEvent(level slog.Level, message string, attributes ...any) {
	dropped, ok := q.logLimit.take(time.Now())
	if !ok {
		return
	}
	if dropped > 0 {
		attributes = append(attributes, "lines_dropped", dropped)
	}
	q.log.Log(context.Background(), level, message, attributes...) //nolint:sloglint // the callers' messages are constants
}

// leavesAlarms reports whether claims leave due alarms in the database: alarms of applications that are not well, or
// whose rings no worker asks for. Safe for concurrent use.
func (q *quarantine) leavesAlarms() bool {
	_, unwell := q.Quarantined()
	return unwell > 0 || q.unasked.Load()
}

// Quarantined returns a sample of the applications in quarantine, at most maxShown, and the number of all of them. It
// is as fresh as the last step of the loop. Safe for concurrent use.
func (q *quarantine) Quarantined() (sample []Quarantined, all int) {
	if u := q.published.Load(); u != nil {
		return u.sample, u.all
	}
	return nil, 0
}

// publish updates the result of Quarantined and the metrics after a change. An application of the sample stays in it
// until it leaves the quarantine.
func (q *quarantine) publish() {
	if !q.changed {
		return
	}
	q.changed = false
	q.shown = slices.DeleteFunc(q.shown,
		func(a *watched) bool { return q.watched[a.name] != a || a.health == rationed })
	unwell := len(q.watched) - q.counts[rationed]
	if len(q.shown) < min(maxShown, unwell) {
		for _, a := range q.watched {
			if a.health != rationed && !slices.Contains(q.shown, a) {
				q.shown = append(q.shown, a)
			}
			if len(q.shown) == maxShown {
				break
			}
		}
	}
	u := &publishedApplications{all: unwell}
	for _, a := range q.shown {
		u.sample = append(u.sample, q.describe(a))
	}
	q.published.Store(u)
	q.metrics.quarantined(q.counts)
}

// logLimit bounds the log lines about single applications, per second.
type logLimit struct {
	since   time.Time // begin of the present second
	lines   int       // lines written in it
	dropped int       // lines dropped since the last written line
}

// linesPerSecond is the number of lines that logLimit allows in a second.
const linesPerSecond = 10

// take reports whether a line may be written now. If so, dropped is the number of lines dropped since the last one.
func (l *logLimit) take(now time.Time) (dropped int, ok bool) {
	if now.Sub(l.since) >= time.Second {
		l.since, l.lines = now, 0
	}
	if l.lines == linesPerSecond {
		l.dropped++
		return 0, false
	}
	l.lines++
	dropped, l.dropped = l.dropped, 0
	return dropped, true
}
