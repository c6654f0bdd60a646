package client

import "time"

// When is the time of an alarm. Make it with At or After.
type When struct {
	at    *instant
	after *duration
}

// At is a time, to the millisecond. A time in the past rings at once.
func At(t time.Time) When { return When{at: new(instant(t))} }

// After is a delay from the arrival of the set at the service, by its database's clock. Zero rings at once. A set with a delay is repeated
// only with the condition Absent: with At a set may be repeated at any time.
func After(d time.Duration) When { return When{after: new(duration(d))} }
