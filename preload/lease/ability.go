package lease

import (
	"maps"
	"slices"
	"time"
)

// AbilityRead is the ability to read due alarms from the database. The other abilities that a node may lack are those
// of its targets (Deps.Abilities), such as "amqp": rings are handed to RabbitMQ. An ability concerns the whole process.
// Trouble of one application's queue is not a lost ability.
const AbilityRead = "read"

const (
	// disabledAfter is how long a node lacks an ability without a break before it yields its shards.
	disabledAfter = 2 * time.Second
	// enabledAfter is how long a node has an ability again without a break before it announces the recovery.
	enabledAfter = 3 * time.Second
)

// abilities tracks the abilities that the node lacks, with hysteresis. A loss is announced at once. Shards are yielded
// after disabledAfter. A recovery is announced after enabledAfter. The first recovery of a process that starts is
// announced at once. Owned by one goroutine. The zero value lacks nothing.
type abilities struct {
	lost    map[string]*loss // by ability
	updated bool             // update was called before
}

// loss is one ability that a node lacks, or lacked a moment ago.
type loss struct {
	since time.Time // start of the unbroken time without the ability; zero while the node has it again
	again time.Time // start of the unbroken time with the ability; zero while the node lacks it
	first bool      // the process has lacked the ability since its start
}

// update records the abilities that the node lacks at now.
func (a *abilities) update(lacks []string, now time.Time) {
	for _, ability := range lacks {
		if a.lost == nil {
			a.lost = map[string]*loss{}
		}
		l := a.lost[ability]
		if l == nil {
			l = &loss{first: !a.updated}
			a.lost[ability] = l
		}
		if l.since.IsZero() {
			l.since, l.again = now, time.Time{}
		}
	}
	maps.DeleteFunc(a.lost, func(ability string, l *loss) bool {
		if slices.Contains(lacks, ability) {
			return false
		}
		if l.again.IsZero() {
			l.since, l.again = time.Time{}, now
		}
		return l.first || now.Sub(l.again) >= enabledAfter
	})
	a.updated = true
}

// restart restarts the disabledAfter timers, because the database was unreachable and the loss may have the same cause.
func (a *abilities) restart(now time.Time) {
	for _, l := range a.lost {
		if !l.since.IsZero() {
			l.since = now
		}
	}
}

// announced returns the missing abilities that the node's row is to name, sorted; nil if it lacks none.
func (a *abilities) announced() []string { return slices.Sorted(maps.Keys(a.lost)) }

// lackedLong returns the abilities that the node has lacked for disabledAfter without a break, sorted. It yields its
// shards for them.
func (a *abilities) lackedLong(now time.Time) (lacks []string) {
	for _, ability := range a.announced() {
		if l := a.lost[ability]; !l.since.IsZero() && now.Sub(l.since) >= disabledAfter {
			lacks = append(lacks, ability)
		}
	}
	return lacks
}

// lostFor returns how long the node has lacked the ability without a break; 0 when it has the ability.
func (a *abilities) lostFor(ability string, now time.Time) time.Duration {
	l := a.lost[ability]
	if l == nil || l.since.IsZero() {
		return 0
	}
	return now.Sub(l.since)
}
