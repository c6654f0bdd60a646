package ring

import (
	"math"
	"time"
)

// health is the state of an application's deliveries. The quarantine remembers only applications that are not healthy.
type health int8

const (
	healthy  health = iota // rings in batches shared with others
	suspect                // rings in batches of its own, one at a time
	held                   // no ring gets through: one probe at a time; the other alarms wait in the database
	absent                 // the target does not accept the application: all its alarms wait in the database
	rationed               // rings in batches of its own, as many rings as the target asks for (RationedTarget)
)

// healths is the number of healths.
const healths = rationed + 1

// String returns the health's name as logs and readiness use it.
func (h health) String() string {
	return [...]string{healthy: "healthy", suspect: "suspect", held: "held", absent: "absent", rationed: "rationed"}[h]
}

const (
	// undeliveredBeforeHold is the number of consecutive undelivered rounds after which an application is held. A round
	// is undelivered when some of its rings were returned or in doubt, and none was confirmed.
	undeliveredBeforeHold = 3
	// unconfirmedPause is the wait of a suspect application after its first round without a confirmation. It doubles
	// with each such round in a row, up to Config.Probe.
	unconfirmedPause = 50 * time.Millisecond
	// maxParked bounds the parked entries of one suspect application. Its other due alarms stay in the database
	// meanwhile.
	maxParked = 1024
	// maxProbes bounds the parked entries of one held application. They are its next probes.
	maxProbes = 16
)

// watched is the state of an addressee in quarantine: an application, or its alarms that name a target.
type watched struct {
	name              addressee
	crew              *crew // crew of the application's route; of leftovers: of the route where their tries are in doubt
	leftover          bool  // the parked entries are leftovers (leftover.go); the application itself rings by another route
	health            health
	reason            string      // reason of the last failure
	batchRows         int         // most rows in a batch: halved while the target refuses, the rows that it took if it did not take all, doubled when all rings are confirmed
	undeliveredRounds int         // consecutive rounds with returned or doubtful rings and without a confirmation
	unconfirmedRounds int         // consecutive rounds without a confirmation and without a refusal
	batches           int         // batches of the application that workers have; at most mostBatches
	failureKind       failureKind // kind of the last round with a failure
	lastRound         uint64      // value of quarantine.rounds at the application's last batch
	batchBegan        time.Time   // time at which the last batch was handed out
	parked            []entry     // due entries that wait for a batch; in flight for the heap
	restricted        bool        // the heap leaves the application's rows out
	suspended         bool        // the heap keeps the application's entries
	nextTry           time.Time   // earliest time of the next batch
	askedAt           time.Time   // held, absent: time at which the heap was last asked for rows
	awaitingRow       bool        // absent: the heap was asked for a row, and none has come
	acceptedAt        time.Time   // leftovers: when their target last accepted the application, or was away
	substitute        *crew       // leftovers: crew of the route that rings them although their tries went elsewhere; nil: their own
	lastActive        time.Time   // time at which the application last had an alarm to ring
}

// failureKind is the way in which an application's rings fail. Applications of one kind share the rounds of the
// quarantine. So a round of replying applications is over at once, however many silent applications there are.
type failureKind int8

const (
	replying failureKind = iota // failed rings were returned or nacked
	silent                      // at least one ring had no reply, so a round lasts up to Config.ReplyTimeout
	// refusing: the target refused a message. It may be unknown which one. So the application has rounds of its own,
	// until the batches are small enough to tell.
	refusing
	// crowded: the receiver confirmed rings, and the others found no place there. It replies more slowly than alarms are
	// due, and works.
	crowded
)

// describe returns what people see of the application.
func (q *quarantine) describe(a *watched) Quarantined {
	to := a.name.Value()
	return Quarantined{
		Application: to.Application, Target: q.crews.nameOf(to), Health: a.health.String(), Reason: a.reason,
	}
}

// room returns how many more entries can be parked. It is negative when too many are parked.
func (a *watched) free() int {
	switch a.health {
	case suspect, rationed:
		return maxParked - len(a.parked)
	case held:
		return maxProbes - len(a.parked)
	default:
		return -len(a.parked)
	}
}

// park keeps e for a batch of the quarantine. It reports false when there is no room.
func (a *watched) park(e entry) bool {
	if a.free() <= 0 {
		return false
	}
	a.parked = append(a.parked, e)
	return true
}

// removeExcess removes the parked entries for which there is no room, and returns them.
func (a *watched) removeExcess() []entry {
	kept := len(a.parked) + min(a.free(), 0)
	excess := append([]entry(nil), a.parked[kept:]...)
	a.parked = a.parked[:kept]
	return excess
}

// ready reports whether the application may have a batch now.
func (a *watched) ready(now time.Time) bool {
	if a.batches >= a.mostBatches() || len(a.parked) == 0 || a.ration() == 0 {
		return false
	}
	return (a.health == suspect || a.health == held || a.health == rationed) && !now.Before(a.nextTry)
}

// mostBatches returns how many batches of the application may be under way at once. With more than one, the receiver
// has the rings of one batch while the database has another.
func (a *watched) mostBatches() int {
	if a.health == rationed || a.crowded() {
		return QuarantineWorkers
	}
	return 1
}

// ration returns how many of the application's rings its target takes now, beside those of the batches under way.
func (a *watched) ration() int {
	if t := a.ringsBy().rationed; t != nil {
		return max(0, t.Ration(a.name.Value().Receiver())-a.batches*a.batchRows)
	}
	return math.MaxInt
}

// unasked reports whether due alarms of a rationed application wait, because its target has asked for no ring for
// expiryInterval.
func (a *watched) unasked(now time.Time) bool {
	return a.health == rationed && a.batches == 0 && len(a.parked) > 0 && now.Sub(a.batchBegan) >= expiryInterval &&
		a.ration() == 0
}

// idle reports whether the application has had no alarm to ring for so long that the quarantine forgets it.
func (a *watched) idle(now time.Time) bool {
	switch {
	case a.batches > 0 || a.hasBacklog():
		return false
	case a.health == absent: // the heap was asked for a row, and none came
		return a.awaitingRow && now.Sub(a.askedAt) >= absentForgetAfter/2
	default:
		return now.Sub(a.lastActive) >= forgetIdleAfter
	}
}

// crowded reports whether the receiver works, and replies more slowly than alarms are due.
func (a *watched) crowded() bool {
	return a.health == suspect && a.failureKind == crowded && !a.leftover
}

// hasBacklog reports whether further alarms of the application are due.
func (a *watched) hasBacklog() bool { return len(a.parked) > 0 || a.suspended }

// canShareRoundWith reports whether b may ring in the same round.
func (a *watched) canShareRoundWith(b *watched) bool {
	return a.failureKind == b.failureKind && a.failureKind != refusing && a.leftover == b.leftover &&
		(a.substitute != nil) == (b.substitute != nil)
}

// pause returns the wait after a round with a failure.
func (a *watched) pause(probe time.Duration) time.Duration {
	switch {
	case a.health == held:
		return probe
	case a.unconfirmedRounds == 0:
		return 0
	default:
		return min(probe, unconfirmedPause<<min(a.unconfirmedRounds-1, 10))
	}
}

// take removes the next batch from the parked entries, at most rows of them.
func (a *watched) take(rows int, localNow time.Time) []entry {
	n := min(len(a.parked), a.batchRows, rows, a.ration())
	if a.health == held {
		n = 1
	}
	batch := append([]entry(nil), a.parked[:n]...)
	a.parked = append(a.parked[:0], a.parked[n:]...)
	a.batchBegan, a.lastActive = localNow, localNow
	a.batches++
	return batch
}

// tally counts the outcomes of one application's rings in one round.
type tally struct {
	confirmed, failed int    // confirmed: also rings with a final refusal; failed: rings that were tried and not confirmed
	undelivered       int    // failed rings that were returned or are in doubt
	silent            int    // failed rings without a reply: in doubt or untaken
	refused           int    // failed rings that the target refused; one message may be to blame for all of them
	taken             int    // rings that the target took, whatever their outcome
	untaken           int    // rings that the target did not take because the application's receiver is busy
	awaited           int    // rings whose reply is late and awaited; not failed, unless blameLate counts them
	reason            string // reason of the last failed ring
}

func (t *tally) failureKind() failureKind {
	switch {
	case t.refused > 0:
		return refusing
	case t.confirmed > 0 && t.untaken == t.failed:
		return crowded
	case t.silent > 0:
		return silent
	default:
		return replying
	}
}

// noteTally updates the application after a round. quarantineRound tells a round of the quarantine from a shared batch.
// It reports whether a round of the quarantine had a confirmed ring and no failed one; awaited rings do not count.
func (a *watched) noteTally(t tally, now time.Time, probe time.Duration, quarantineRound bool) bool {
	if t.failed == 0 {
		return t.confirmed > 0 && quarantineRound
	}
	a.reason, a.failureKind = t.reason, t.failureKind()
	if t.refused > 1 {
		a.batchRows = max(1, t.refused/2)
	}
	if t.untaken > 0 && t.taken > 0 { // a receiver that takes nothing may take any number the next time
		a.batchRows = min(a.batchRows, t.taken) // each further row would be claimed and released again
	}
	a.unconfirmedRounds++
	switch {
	case t.confirmed > 0 || t.undelivered == 0 && t.silent == 0:
		a.undeliveredRounds = 0
	case t.undelivered > 0:
		a.undeliveredRounds++
	}
	if t.refused > 0 || t.confirmed > 0 {
		a.unconfirmedRounds = 0
	}
	if a.health == suspect && a.undeliveredRounds >= undeliveredBeforeHold {
		a.health = held
	}
	if a.nextTry = now.Add(a.pause(probe)); quarantineRound { // a round without a reply was a pause already
		a.nextTry = a.batchBegan.Add(a.pause(probe))
	}
	return false
}
