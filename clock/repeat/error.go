package repeat

import "fmt"

// Error is a refused rule or local time.
type Error struct {
	Field    string // cron, time_zone, every, anchor, from, until, skip_dates, times, jitter, latest_after, missed, missed_limit, overlap, dst or local_time
	Position int    // 1-based byte position of the fault in the text of Field; 0: the fault has no position
	Reason   string // a clause without field name and position
}

// Error returns the field, the reason and the position.
func (e *Error) Error() string {
	if e.Position == 0 {
		return fmt.Sprintf("%s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("%s: %s (at character %d)", e.Field, e.Reason, e.Position)
}

func refuse(field, format string, args ...any) *Error {
	return &Error{Field: field, Reason: fmt.Sprintf(format, args...)}
}
