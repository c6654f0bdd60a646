package client

import (
	"encoding/json"
	"time"
)

// When is the time of an alarm. Make it with At, AtLocal or After.
type When struct {
	at       json.Marshaler
	after    *duration
	timeZone string // with a local time
}

// At is a time, to the millisecond. A time in the past rings at once.
func At(t time.Time) When { return When{at: instant(t)} }

// AtLocal is a local time, such as 2030-01-31T18:30:00, in the time zone with an IANA name. The service finds its
// instant. A local time that the clock skips in spring rings at the end of the gap. A local time that the clock shows
// twice in autumn rings the first time.
func AtLocal(dateTime, timeZone string) When {
	return When{at: localTime(dateTime), timeZone: timeZone}
}

// localTime is a local time in the service's JSON.
type localTime string

// MarshalJSON writes a string.
func (l localTime) MarshalJSON() ([]byte, error) { return json.Marshal(string(l)) }

// After is a delay from the arrival of the set at the service, by its database's clock. Zero rings at once. A set with
// a delay is repeated only with the condition Absent: with At a set may be repeated at any time.
func After(d time.Duration) When { return When{after: (*duration)(&d)} }
