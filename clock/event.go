package clock

import (
	"cmp"
	"encoding/json"
	"slices"
)

// EventKind says what happened to an alarm.
type EventKind string

// The kinds of events.
const (
	EventCreated      EventKind = "created"
	EventSet          EventKind = "set"          // a change of an existing alarm: a set, a shift or a trigger
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

	EventBulk EventKind = "bulk" // the start of a bulk job that may have changed the alarm

	// Of the application, while the alarm was not over.
	EventApplicationPaused  EventKind = "application_paused"
	EventApplicationResumed EventKind = "application_resumed"
)

// eventOfAction has the event of each action on an alarm that the audit records.
var eventOfAction = map[string]EventKind{
	"cancel": EventCancelled, "pause": EventPaused, "resume": EventResumed, "trigger": EventTriggered, "kick": EventKicked,
	"discard": EventDiscarded, "backfill": EventBackfilled, "end_backfill": EventBackfillEnded,
}

// tellingActs are the kinds of acts that tell what the row would tell, too.
var tellingActs = []EventKind{EventPaused, EventTriggered, EventCancelled, EventKicked, EventDiscarded}

// Event is something that happened to an alarm.
type Event struct {
	At         Instant
	Kind       EventKind
	Generation int64
	// RingAt is when the alarm was to ring, of EventCreated and EventSet; else, and where it is not known, NoInstant.
	RingAt Instant
	RingNo int    // of a try, a ring or its answer; else, and where it is not known, 0
	Detail string // outcome and error of a try, reason of an end, or note of a person; may be empty
	By     string // who answered, or acted: a name, or the address of a person without one; may be empty
	Job    string // of EventBulk: its id
}

// BulkAct is the start of a bulk job that may have changed an alarm. It writes nothing for a single alarm.
type BulkAct struct {
	Job  string // id
	At   Instant
	What string // action and note
	By   string
}

// ApplicationPause is the pause of an application, or its end.
type ApplicationPause struct {
	At     Instant
	By     string
	Paused bool // false: the application was resumed
}

// Events returns what the row, its attempts, the acts on it, the bulk jobs and the pauses of the application tell
// about the alarm's life, in the order of time. No event is stored for it: a set, a ring and a cancel of an
// application write their row alone. A change that overwrites the row keeps the former values in it (PastGenerations).
// The events have the newest generations, but not each change within them, such as a pause before its resume. A
// restore raises generations without a change of the alarm.
func (a *Alarm) Events(acts []Act, jobs []BulkAct, pauses []ApplicationPause) []Event {
	var acted, begins, ends []Event
	told := map[Instant]bool{} // when acts have paused, triggered or ended the alarm
	for i := range acts {
		if e, ok := acts[i].event(); ok && e.At >= a.CreateTime {
			acted = append(acted, e)
			told[e.At] = told[e.At] || slices.Contains(tellingActs, e.Kind)
		}
	}
	generations := append(a.Past.List(), a.generation())
	former := &PastGeneration{ReplacedAt: a.CreateTime}
	for i := range generations {
		g := &generations[i]
		if begin := g.begin(former); begin.Kind == EventCreated || begin.Kind != "" && !told[begin.At] {
			begins = append(begins, begin)
		}
		ends = append(ends, g.events(former, told)...)
		former = g
	}
	if a.State == Paused && !told[a.UpdateTime] {
		ends = append(ends, Event{
			At: a.UpdateTime, Kind: EventPaused, Generation: a.Generation, RingAt: NoInstant, Detail: a.pauseReason(),
		})
	}
	events := slices.Concat(begins, acted)
	for i := range jobs {
		j := &jobs[i]
		events = append(events, Event{
			At: j.At, Kind: EventBulk, Generation: generationAt(generations, j.At), RingAt: NoInstant, Detail: j.What, By: j.By,
			Job: j.Job,
		})
	}
	for _, p := range pauses {
		if p.At < a.CreateTime || a.FinishedAt != NoInstant && p.At > a.FinishedAt {
			continue
		}
		kind := EventApplicationPaused
		if !p.Paused {
			kind = EventApplicationResumed
		}
		events = append(events, Event{
			At: p.At, Kind: kind, Generation: generationAt(generations, p.At), RingAt: NoInstant, By: p.By,
		})
	}
	for i := range a.Attempts {
		events = append(events, a.Attempts[i].event())
	}
	events = append(events, ends...)
	slices.SortStableFunc(events, func(x, y Event) int { return int(min(max(x.At-y.At, -1), 1)) })
	return events
}

// generationAt returns which of the generations was there at an instant: the first for an earlier instant, else the last.
func generationAt(generations []PastGeneration, at Instant) int64 {
	last := len(generations) - 1
	for _, g := range generations[:last] {
		if at < g.ReplacedAt {
			return g.Generation
		}
	}
	return generations[last].Generation
}

// begin returns what followed the former generation: created after none (generation 0), set after another generation,
// and kicked after an end of the same one. It returns no kind after a discard, because the end tells it.
func (g *PastGeneration) begin(former *PastGeneration) Event {
	e := Event{At: former.ReplacedAt, Kind: EventSet, Generation: former.Generation + 1, RingAt: NoInstant}
	if former.Generation == 0 {
		e.Kind = EventCreated
	}
	switch {
	case !g.continues(former):
		if (g.Generation-e.Generation)%RaisedGenerations == 0 {
			e.Generation, e.RingAt = g.Generation, g.RingAt
		}
	case g.State == Cancelled && g.FinishedAt == former.ReplacedAt:
		e.Kind = ""
	default:
		e.Kind, e.Generation = EventKicked, g.Generation
	}
	return e
}

// continues reports whether the former generation is the same one, before a kick or a discard.
func (g *PastGeneration) continues(former *PastGeneration) bool {
	return former.Generation > 0 && (g.Generation-former.Generation)%RaisedGenerations == 0
}

// events returns the last ring of the generation, its answer and its end. What the former generation or an act tells is
// left out.
func (g *PastGeneration) events(former *PastGeneration, told map[Instant]bool) (events []Event) {
	add := func(at Instant, kind EventKind, ringNo int, detail, by string) {
		if at != NoInstant {
			events = append(events, Event{
				At: at, Kind: kind, Generation: g.Generation, RingAt: NoInstant, RingNo: ringNo, Detail: detail, By: by,
			})
		}
	}
	continues := g.continues(former)
	if !continues || g.RungAt != former.RungAt {
		add(g.RungAt, EventRung, g.RingNo, "", "")
	}
	switch g.Answer {
	case Ack:
		add(g.AnsweredAt, EventAcknowledged, g.RingNo, "", g.AnsweredBy)
	case Touch:
		if !continues || g.AnsweredAt != former.AnsweredAt {
			add(g.AnsweredAt, EventTouched, g.RingNo, "", g.AnsweredBy)
		}
	case NoAnswer, Release, Bury: // the attempt tells it
	}
	switch g.State {
	case Expired:
		add(g.FinishedAt, EventExpired, 0, g.Reason, "")
	case Dead:
		add(g.FinishedAt, EventDead, 0, g.Reason, "")
	case Cancelled:
		if !told[g.FinishedAt] {
			add(g.FinishedAt, EventCancelled, 0, "", "")
		}
	case Scheduled, Ringing, Rung, Paused:
	}
	return events
}

// event returns the event of an act on an alarm; false for another act.
func (a *Act) event() (Event, bool) {
	kind, known := eventOfAction[a.Action]
	var state actState
	if !known || json.Unmarshal([]byte(a.After), &state) != nil {
		return Event{}, false
	}
	return Event{
		At: a.At, Kind: kind, Generation: state.Generation, RingAt: NoInstant, Detail: state.Note,
		By: cmp.Or(a.Name, a.From),
	}, true
}

// event returns the event of an attempt.
func (t *Attempt) event() Event {
	e := Event{
		At: t.Time, Kind: EventTried, Generation: t.Generation, RingAt: NoInstant, RingNo: t.RingNo, Detail: t.Error,
		By: t.By,
	}
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
