package clock

import (
	"encoding/json"
	"slices"
)

// EventKind says what happened to an alarm.
type EventKind string

// The kinds of events.
const (
	EventCreated      EventKind = "created"
	EventTried        EventKind = "tried"        // a try that failed or whose outcome is unknown
	EventRung         EventKind = "rung"         // the last confirmed ring
	EventAcknowledged EventKind = "acknowledged" // the application has acknowledged the ring
	EventTouched      EventKind = "touched"      // the application has asked for more time
	EventReleased     EventKind = "released"
	EventBuried       EventKind = "buried"
	EventUnanswered   EventKind = "unanswered" // a ring was not acknowledged in time
	EventPaused       EventKind = "paused"     // the last change of an alarm that is paused
	EventExpired      EventKind = "expired"
	EventDead         EventKind = "dead"
	EventCancelled    EventKind = "cancelled"

	// Of acts alone.
	EventResumed       EventKind = "resumed"
	EventTriggered     EventKind = "triggered"
	EventKicked        EventKind = "kicked"
	EventDiscarded     EventKind = "discarded"
	EventBackfilled    EventKind = "backfilled"
	EventBackfillEnded EventKind = "backfill_ended"
)

// eventOfAction has the event of each action on an alarm that the audit records.
var eventOfAction = map[string]EventKind{
	"cancel": EventCancelled, "pause": EventPaused, "resume": EventResumed, "trigger": EventTriggered, "kick": EventKicked,
	"discard": EventDiscarded, "backfill": EventBackfilled, "end_backfill": EventBackfillEnded,
}

// Event is something that happened to an alarm.
type Event struct {
	At         Instant
	Kind       EventKind
	Generation int64
	RingNo     int    // of a try, a ring or its answer; else, and where it is not known, 0
	Detail     string // outcome and error of a try, reason of an end, or note of a person; may be empty
	By         string // who answered, or acted; may be empty
}

// Events returns what the row, its attempts and the acts on it tell about the alarm's life, in the order of time. No
// event is stored for it: a set, a ring and a cancel of an application write their row alone. So changes of
// applications that a later change has overwritten are missing, such as the time of an earlier set.
func (a *Alarm) Events(acts []Act) []Event {
	events := []Event{{At: a.CreateTime, Kind: EventCreated, Generation: 1}}
	told := map[Instant]bool{} // when acts have paused or ended the alarm
	for i := range acts {
		if e, ok := acts[i].event(); ok && e.At >= a.CreateTime {
			events = append(events, e)
			told[e.At] = told[e.At] || e.Kind == EventPaused || e.Kind == EventCancelled || e.Kind == EventDiscarded
		}
	}
	for i := range a.Attempts {
		events = append(events, a.Attempts[i].event())
	}
	add := func(at Instant, kind EventKind, ringNo int, detail, by string) {
		if at != NoInstant {
			events = append(events,
				Event{At: at, Kind: kind, Generation: a.Generation, RingNo: ringNo, Detail: detail, By: by})
		}
	}
	latest := a.RingNo
	if a.Progress.Repeats() && a.RingNo == a.Progress.RingsBefore {
		latest = 0 // not known: occurrences that did not ring have taken numbers since
	}
	add(a.RungAt, EventRung, latest, "", "")
	switch a.Answer {
	case Ack:
		add(a.AnsweredAt, EventAcknowledged, latest, "", a.AnsweredBy)
	case Touch:
		add(a.AnsweredAt, EventTouched, latest, "", a.AnsweredBy)
	case NoAnswer, Release, Bury: // the attempt tells it
	}
	switch a.State {
	case Paused:
		if !told[a.UpdateTime] {
			add(a.UpdateTime, EventPaused, 0, a.pauseReason(), "")
		}
	case Expired:
		add(a.FinishedAt, EventExpired, 0, a.LastError, "")
	case Dead:
		add(a.FinishedAt, EventDead, 0, a.LastError, "")
	case Cancelled:
		if !told[a.FinishedAt] {
			add(a.FinishedAt, EventCancelled, 0, "", "")
		}
	case Scheduled, Ringing, Rung:
	}
	slices.SortStableFunc(events, func(x, y Event) int { return int(min(max(x.At-y.At, -1), 1)) })
	return events
}

// event returns the event of an act on an alarm; false for another act.
func (a *Act) event() (Event, bool) {
	kind, known := eventOfAction[a.Action]
	var state actState
	if !known || json.Unmarshal([]byte(a.After), &state) != nil {
		return Event{}, false
	}
	return Event{At: a.At, Kind: kind, Generation: state.Generation, Detail: state.Note, By: a.Name}, true
}

// event returns the event of an attempt.
func (t *Attempt) event() Event {
	e := Event{At: t.Time, Kind: EventTried, Generation: t.Generation, RingNo: t.RingNo, Detail: t.Error, By: t.By}
	switch t.Outcome {
	case Released:
		e.Kind = EventReleased
	case Buried:
		e.Kind = EventBuried
	case Unacknowledged:
		e.Kind = EventUnanswered
	default:
		if e.Detail = t.Outcome.String(); t.Error != "" {
			e.Detail += ": " + t.Error
		}
	}
	return e
}
