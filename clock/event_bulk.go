package clock

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// BulkAct is what a bulk job did to the alarms that its filter selects. Nothing is written for each of them, so
// Alarm.Events infers from the row whether its alarm was changed.
type BulkAct struct {
	Job                 string // id
	Begun, Ended        Instant
	Kind                EventKind     // cancelled, kicked, discarded, paused, resumed or, of a shift, set
	Shift               time.Duration // of EventSet
	DueAfter, DueBefore Instant       // as in ListQuery
	By, Note            string
}

// ownTraces are the kinds of events that a job leaves in the rows that it changes, so each of its changes is known.
var ownTraces = []EventKind{EventCancelled, EventDiscarded, EventSet}

// addBulk adds to the events of the alarm, which are in the order of time, what bulk jobs did to it. A job is named in
// the event of its change. A pause that was resumed, a resume and a kick have left no event: they are told as of the
// begin of their job, if the events say that the alarm was not over, paused or dead then. So the kick of an expired
// alarm is not told.
func (a *Alarm) addBulk(events []Event, jobs []BulkAct) []Event {
	slices.SortStableFunc(jobs, func(x, y BulkAct) int { return cmp.Compare(x.Begun, y.Begun) })
	generations := append(a.Past.List(), a.generation())
	for _, j := range jobs {
		if i := j.trace(events, generations); i >= 0 {
			j.nameIn(&events[i])
			continue
		}
		if generation, is := a.selected(j, events, generations); is {
			e := Event{At: j.Begun, Kind: j.Kind, Generation: generation, RingAt: NoInstant}
			j.nameIn(&e)
			events = slices.Insert(events, eventsUntil(events, j.Begun), e)
		}
	}
	return events
}

// nameIn writes the job into the event of its change.
func (j *BulkAct) nameIn(e *Event) { e.Kind, e.Detail, e.By, e.Job = j.Kind, j.Note, j.By, j.Job }

// trace returns the index of the event that the job has left, -1 for none. Acts of people name who acted.
func (j *BulkAct) trace(events []Event, generations []PastGeneration) int {
	kind := j.Kind
	if kind == EventDiscarded {
		kind = EventCancelled
	}
	return slices.IndexFunc(events, func(e Event) bool {
		return e.Kind == kind && e.By == "" && j.during(e.At) && (kind != EventSet || j.shifted(e, generations))
	})
}

// during reports whether the job ran at an instant.
func (j *BulkAct) during(at Instant) bool {
	return at >= j.Begun && (j.Ended == NoInstant || at <= j.Ended)
}

// shifted reports whether a set moved the alarm by as much as the job does.
func (j *BulkAct) shifted(set Event, generations []PastGeneration) bool {
	i := slices.IndexFunc(generations, func(g PastGeneration) bool { return g.Generation == set.Generation })
	return i > 0 && generations[i].RingAt == generations[i-1].RingAt.Add(j.Shift)
}

// selected reports whether the filter of a job selected the alarm when the job began, as far as the events tell, and
// its generation then.
func (a *Alarm) selected(j BulkAct, events []Event, generations []PastGeneration) (generation int64, is bool) {
	if slices.Contains(ownTraces, j.Kind) {
		return 0, false
	}
	g := generations[slices.IndexFunc(generations, func(g PastGeneration) bool {
		return g.ReplacedAt == NoInstant || g.ReplacedAt > j.Begun
	})]
	switch before := events[:eventsUntil(events, j.Begun)]; {
	case g.FinishedAt != NoInstant && g.FinishedAt < j.Begun: // and it was not kicked since
	case g.ReplacedAt == NoInstant && a.UpdateTime < j.Begun: // it has not changed since
	case j.Kind == EventKicked:
		is = g.ReplacedAt == NoInstant && a.diedIn(before)
	case j.Kind == EventResumed:
		is = pausedAfter(before)
	default:
		is = !pausedAfter(before) &&
			(a.Repeat != nil || j.selectsDue(g.RingAt) && !handedOverAfter(before, g.Generation))
	}
	return g.Generation, is
}

// pausedAfter reports whether an alarm was paused after the events.
func pausedAfter(events []Event) (paused bool) {
	for _, e := range events {
		paused = e.Kind == EventPaused || paused && e.Kind != EventResumed
	}
	return paused
}

// handedOverAfter reports whether a ring of the generation may have arrived, and the alarm waited for its answer or for
// the outcome, after the events. Such an alarm refuses a pause if it does not repeat.
func handedOverAfter(events []Event, generation int64) (handedOver bool) {
	for _, e := range events {
		switch {
		case e.Generation != generation:
		case e.Kind == EventTried:
			handedOver = strings.HasPrefix(e.Detail, Doubtful.String())
		case e.Kind == EventRung || e.Kind == EventTouched:
			handedOver = true
		case e.Kind == EventReleased || e.Kind == EventUnanswered:
			handedOver = false
		}
	}
	return handedOver
}

// diedIn reports whether the alarm used up its retries or rings, or was buried, in events of its generation.
func (a *Alarm) diedIn(events []Event) bool {
	count := map[EventKind]int{}
	for _, e := range events {
		switch {
		case e.Kind == EventKicked:
			clear(count)
		case e.Generation == a.Generation:
			count[e.Kind]++
		}
	}
	return count[EventBuried] > 0 || a.Retry.Exhausted(count[EventTried]) ||
		a.AckTimeout > 0 && count[EventUnanswered] >= a.MaxRings
}

// selectsDue reports whether the filter of the job selects an alarm that is due at an instant.
func (j *BulkAct) selectsDue(at Instant) bool {
	return at >= j.DueAfter && (j.DueBefore == NoInstant || at < j.DueBefore)
}

// eventsUntil returns how many of the events, which are in the order of time, are not later than an instant.
func eventsUntil(events []Event, at Instant) int {
	i, _ := slices.BinarySearchFunc(events, at, func(e Event, at Instant) int {
		if e.At <= at {
			return -1
		}
		return 1
	})
	return i
}
