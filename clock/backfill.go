package clock

import "time"

// Backfill asks that a repeating alarm rings for occurrences of a range of the past, besides its current one.
type Backfill struct {
	Key
	If          Condition     // AnyRow or AtGeneration
	From, Until Instant       // range of the occurrences, inclusive; Until NoInstant, or in the future: until now
	Limit       int           // most occurrences, at most MaxBackfill; 0: the rule's missed_limit, or its default
	Pace        time.Duration // from the end of a ring until the next one may begin
}

// EndBackfill asks that no further ring of a backfill begins.
type EndBackfill struct {
	Key
	If Condition // AnyRow or AtGeneration
}

// Limits of a Backfill.
const (
	MaxBackfill = 10_000 // occurrences
	DefaultPace = time.Second
	MaxPace     = 24 * time.Hour
)

// Validate refuses values out of range. Whether the range fits the alarm's rule is decided with its row.
func (b *Backfill) Validate() error {
	switch {
	case b.From == NoInstant:
		return invalid(CodeRequired, "from", "from is required: the begin of the range")
	case !b.From.Valid():
		return invalid(CodeInvalidValue, "from", "from must be in the years from 1970 to 9999")
	case b.Until != NoInstant && b.Until < b.From:
		return invalid(CodeOutOfRange, "until", "until is before from")
	case b.Limit < 0 || b.Limit > MaxBackfill:
		return invalid(CodeOutOfRange, "limit", "limit must be from 1 to 10000")
	case b.Pace < 0 || b.Pace > MaxPace:
		return invalid(CodeOutOfRange, "pace", "pace must be from 0 to 24 h")
	}
	return nil
}
