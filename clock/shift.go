package clock

import "time"

// Shift asks that a scheduled or paused alarm rings earlier or later than it is set to.
type Shift struct {
	Key
	By time.Duration // whole milliseconds; negative: earlier
	// UnchangedSince refuses an alarm that has changed later than this. So a repeated shift does not move the alarm
	// again.
	UnchangedSince Instant
}
