package client

import (
	"context"
	"encoding/json"
	"time"
)

// Event is something that happened to an alarm.
type Event struct {
	At         time.Time `json:"at"`
	Kind       string    `json:"event"` // such as created, set, tried, rung, acknowledged, paused, dead or cancelled
	Generation int64     `json:"generation"`
	RingAt     time.Time `json:"ring_at"` // of created and set: when the alarm was to ring; else, or not known, zero
	RingNo     int       `json:"ring_no"` // of a try, a ring or its answer; else 0
	Detail     string    `json:"detail"`  // outcome and error of a try, reason of an end, or note of a person; may be empty
	By         string    `json:"by"`      // who answered, or acted; may be empty
	Job        string    `json:"job"`     // of bulk, the start of a job that may have changed the alarm: its id
}

// Life is what is known about the life of an alarm.
type Life struct {
	State       State     `json:"state"`
	NextTryTime time.Time `json:"next_try_time"` // zero: none
	Events      []Event   `json:"events"`        // in the order of time

	Raw json.RawMessage `json:"-"` // the events as the service wrote them
}

// UnmarshalJSON reads the events of the service.
func (l *Life) UnmarshalJSON(b []byte) error {
	type fields Life
	if err := json.Unmarshal(b, (*fields)(l)); err != nil {
		return err
	}
	l.Raw = append(json.RawMessage(nil), b...)
	return nil
}

// Events returns what the alarm, its newest attempts and the newest acts of people on it tell about its life. Changes
// of applications that a later change has overwritten are missing.
func (c *Client) Events(ctx context.Context, application, businessID string) (*Life, error) {
	return read[Life](ctx, c, alarmPath(application, businessID)+"/events")
}
