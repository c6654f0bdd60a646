package client

import (
	"encoding/json"
	"errors"
	"time"
)

// Ring is one ring of an alarm, as the stream and the envelope of a webhook have it.
type Ring struct {
	MessageID   string // the same for all copies of one ring; no other ring has it
	Application string
	BusinessID  string
	Generation  int64 // version of the alarm
	RingNo      int   // number of the ring in its generation, from 1
	RetryTimes  int   // failed tries of the alarm
	RingAt      time.Time
	RungAt      time.Time     // when the service began this try, by its database's clock
	ClaimID     string        // the service's transaction; copies of a ring have different ones
	AckTimeout  time.Duration // time for the answer; 0: the ring needs no answer
	ContentType string
	Traceparent string // W3C trace context of the set, "" if it had none; the envelope of a webhook has it in a header instead
	Payload     Payload
	Occurrence  *RingOccurrence // occurrence that rings; nil: the alarm rings once, or a person triggered the ring

	Raw json.RawMessage // the ring as the service wrote it
}

// RingOccurrence is the occurrence of a repeating alarm that rings.
type RingOccurrence struct {
	Number     int64     `json:"number"`      // 1 for the first occurrence of a generation; 0: of a backfill
	At         time.Time `json:"at"`          // its time, without jitter
	PreviousAt time.Time `json:"previous_at"` // time of the occurrence before it, whether it rang or not; zero: there is none
	NextAt     time.Time `json:"next_at"`     // time of the occurrence after it; zero: there is none
}

// ringFields are the members of a ring in JSON.
type ringFields struct {
	MessageID   string    `json:"message_id"`
	Application string    `json:"application"`
	BusinessID  string    `json:"business_id"`
	Generation  int64     `json:"generation"`
	RingNo      int       `json:"ring_no"`
	RetryTimes  int       `json:"retry_times"`
	RingAt      time.Time `json:"ring_at"`
	RungAt      time.Time `json:"rung_at"`
	ClaimID     string    `json:"claim_id"`
	AckTimeout  duration  `json:"ack_timeout"`
	ContentType string    `json:"content_type"`
	Traceparent string    `json:"traceparent"`
	payloadFields
	Occurrence *RingOccurrence `json:"occurrence"`
}

// UnmarshalJSON reads a ring of the service. It ignores members that it does not know.
func (r *Ring) UnmarshalJSON(b []byte) error {
	var f ringFields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if f.MessageID == "" || f.BusinessID == "" {
		return errors.New("a ring needs message_id and business_id")
	}
	payload, err := f.payload()
	if err != nil {
		return err
	}
	*r = Ring{
		MessageID: f.MessageID, Application: f.Application, BusinessID: f.BusinessID, Generation: f.Generation,
		RingNo:     f.RingNo,
		RetryTimes: f.RetryTimes, RingAt: f.RingAt, RungAt: f.RungAt, ClaimID: f.ClaimID,
		AckTimeout:  time.Duration(f.AckTimeout),
		ContentType: f.ContentType, Traceparent: f.Traceparent, Payload: payload, Occurrence: f.Occurrence,
		Raw: append(json.RawMessage(nil), b...),
	}
	return nil
}
