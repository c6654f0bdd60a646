package clock

import "slices"

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
)

// Event is something that happened to an alarm.
type Event struct {
	At         Instant
	Kind       EventKind
	Generation int64
	RingNo     int    // of a try, a ring or its answer; else, and where it is not known, 0
	Detail     string // outcome and error of a try, or the reason of an end; may be empty
	By         string // who answered; may be empty
}

// Events returns what the row and its attempts tell about the alarm's life, in the order of time. No event is stored
// for it: a set, a ring and a cancel write their row alone. So changes that a later change has overwritten are missing,
// such as a pause that has ended.
func (a *Alarm) Events() []Event {
	events := []Event{{At: a.CreateTime, Kind: EventCreated, Generation: 1}}
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
		add(a.UpdateTime, EventPaused, 0, a.pauseReason(), "")
	case Expired:
		add(a.FinishedAt, EventExpired, 0, a.LastError, "")
	case Dead:
		add(a.FinishedAt, EventDead, 0, a.LastError, "")
	case Cancelled:
		add(a.FinishedAt, EventCancelled, 0, "", "")
	case Scheduled, Ringing, Rung:
	}
	slices.SortStableFunc(events, func(x, y Event) int { return int(min(max(x.At-y.At, -1), 1)) })
	return events
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
