package clock

import (
	"context"

	"github.com/clockd/clockd/clock/repeat"
)

// RepeatingReader reads which alarms repeat, by an index: however many alarms ring once.
type RepeatingReader interface {
	// RepeatingApplications returns the names of the applications with repeating alarms, as Directory.Applications
	// does. Some may have only alarms that repeated before they were set again.
	RepeatingApplications(ctx context.Context, after string, limit int) ([]string, error)
	// Rules returns rules of an application's repeating alarms: of its first ones by business id, at most limit.
	Rules(ctx context.Context, application string, limit int) (Rules, error)
}

// Rules are rules of the repeating alarms of an application.
type Rules struct {
	Alarms []RuledAlarm // without unreadable alarms, and alarms that will not ring by themselves
	Read   int64        // alarms that were looked at
	Total  int64        // all repeating alarms; one million: so many or more
}

// RuledAlarm is what says when a repeating alarm rings.
type RuledAlarm struct {
	Repetition
	Current     repeat.Occurrence // occurrence that rings now, or next
	NextTryTime Instant
}
