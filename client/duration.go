package client

import (
	"encoding/json"
	"fmt"
	"time"
)

// duration is a duration in the service's JSON: read as a text like "1h30m" or null, written as milliseconds.
type duration time.Duration

// UnmarshalJSON reads a text. null leaves the value unchanged.
func (d *duration) UnmarshalJSON(b []byte) error {
	var text *string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if text == nil {
		return nil
	}
	read, err := time.ParseDuration(*text)
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	*d = duration(read)
	return nil
}

// MarshalJSON writes milliseconds, rounded up.
func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(milliseconds(time.Duration(d))) }

// milliseconds returns d in milliseconds, rounded up: an alarm must not ring early.
func milliseconds(d time.Duration) int64 {
	ms := d.Milliseconds()
	if d > time.Duration(ms)*time.Millisecond {
		ms++
	}
	return ms
}

// instant is a time in the service's JSON, read as a text of RFC 3339, written as milliseconds since the epoch, rounded
// up.
type instant time.Time

// UnmarshalJSON reads a time in the form of RFC 3339.
func (i *instant) UnmarshalJSON(b []byte) error { return (*time.Time)(i).UnmarshalJSON(b) }

// MarshalJSON writes milliseconds.
func (i instant) MarshalJSON() ([]byte, error) {
	t := time.Time(i)
	ms := t.UnixMilli()
	if t.After(time.UnixMilli(ms)) {
		ms++
	}
	return json.Marshal(ms)
}
