package client

import (
	"encoding/json"
	"fmt"
	"time"
)

// State is the state of an alarm.
type State string

// The states.
const (
	Scheduled State = "scheduled" // waits for its time, or for another try
	Ringing   State = "ringing"   // has rung and waits for the application's answer
	Rung      State = "rung"      // has rung, and was acknowledged if it needs that
	Expired   State = "expired"   // did not ring before its latest time
	Dead      State = "dead"      // waits for a person: buried, or without tries or rings left
	Cancelled State = "cancelled" // cancelled by the application
	Paused    State = "paused"    // held by a person
)

// Alarm is an alarm as the service returns it. A time that the alarm does not have is the zero time.
type Alarm struct {
	Application string
	BusinessID  string
	State       State
	Generation  int64 // version: 1 at creation, 1 more with each set that changes the alarm

	RingAt       time.Time // time to ring; of a repeating alarm, of its current occurrence
	LocalRingAt  string    // local time that was set with AtLocal, whose instant is RingAt; empty: none
	TimeZone     string    // time zone of LocalRingAt; empty: none
	LatestRingAt time.Time // last time to ring; zero: however late
	NextTryTime  time.Time // time of the next ring or try; zero: none
	Payload      Payload
	ContentType  string

	Retry      Retry
	AckTimeout time.Duration // time for an answer to a ring; 0: rings need no answer
	MaxRings   int           // rings without an answer until the alarm is dead
	Priority   int
	Delivery   Delivery
	Target     string // target that the set named, perhaps with a destination: webhook/refunds; empty: none
	// Receiver has the fields of the receiver that the set brought itself, without the values of headers and the query
	// of a URL; nil: none.
	Receiver    Receiver
	Traceparent string

	Repeat          *Repeat     // rule of a repeating alarm; nil: the alarm rings once
	RepeatSentence  string      // when the rule rings, in words; empty without Repeat
	Occurrence      *Occurrence // current occurrence; nil without Repeat
	RepeatEnded     bool        // the alarm repeated before this Set, which had no rule, and rings once now; only Set returns it
	NextOccurrences []time.Time // the next three occurrences, the current one first; empty when the alarm is over

	RetryTimes int    // failed tries
	RingNo     int    // confirmed rings of this generation
	InDoubt    bool   // a ring was handed over, and its outcome is unknown
	LastError  string // empty: none
	RungAt     time.Time

	Answer     AnswerKind // last accepted answer of this generation; empty: none
	AnsweredBy string     // name of the answering person or program
	AnsweredAt time.Time

	CreatedAt  time.Time
	UpdatedAt  time.Time
	FinishedAt time.Time

	Attempts []Attempt // failed tries and refused rings, newest first; only Get returns them
	Blockers []Blocker // reasons why it does not ring although it is due; only reads return them

	Raw json.RawMessage // the alarm as the service wrote it
}

// Attempt is a try to ring that was not confirmed, or a ring that was released, buried or not answered.
type Attempt struct {
	Generation int64     `json:"generation"`
	RingNo     int       `json:"ring_no"`
	ClaimID    string    `json:"claim_id"` // transaction of the service that made the try
	Time       time.Time `json:"time"`
	Outcome    string    `json:"outcome"` // such as returned, nacked, in_doubt, released, buried or unacknowledged
	Error      string    `json:"error"`   // empty: none
	By         string    `json:"by"`      // who released or buried the ring; empty: not known
}

// Blocker is a reason why due alarms do not ring now, as one node knows it.
type Blocker struct {
	Code   string `json:"code"`   // node, other_node, paused, no_target, target_down, no_receiver, failing or held; the OpenAPI document explains them
	Target string `json:"target"` // target of the concerned alarms; empty: none, or all
	Detail string `json:"detail"` // a sentence for people
}

// Delivery says whether a ring with an unknown outcome is repeated.
type Delivery string

// The deliveries.
const (
	AtLeastOnce Delivery = "at_least_once" // it is repeated under the same message id; the default
	AtMostOnce  Delivery = "at_most_once"  // it is not; not together with AckTimeout
)

// alarmFields are the members of an alarm in JSON.
type alarmFields struct {
	Application string `json:"application"`
	BusinessID  string `json:"business_id"`
	State       State  `json:"state"`
	Generation  int64  `json:"generation"`

	RingAt       time.Time `json:"ring_at"`
	LocalRingAt  string    `json:"local_ring_at"`
	TimeZone     string    `json:"time_zone"`
	LatestRingAt time.Time `json:"latest_ring_at"`
	NextTryTime  time.Time `json:"next_try_time"`
	payloadFields
	ContentType string `json:"content_type"`

	Retry       Retry    `json:"retry"`
	AckTimeout  duration `json:"ack_timeout"`
	MaxRings    int      `json:"max_rings"`
	Priority    int      `json:"priority"`
	Delivery    Delivery `json:"delivery"`
	Target      string   `json:"target"`
	Receiver    Receiver `json:"receiver"`
	Traceparent string   `json:"traceparent"`

	Repeat          *Repeat     `json:"repeat"`
	RepeatSentence  string      `json:"repeat_sentence"`
	Occurrence      *Occurrence `json:"occurrence"`
	NextOccurrences []time.Time `json:"next_occurrences"`
	RepeatEnded     bool        `json:"repeat_ended"`

	RetryTimes int       `json:"retry_times"`
	RingNo     int       `json:"ring_no"`
	InDoubt    bool      `json:"in_doubt"`
	LastError  string    `json:"last_error"`
	RungAt     time.Time `json:"rung_at"`

	Answer     AnswerKind `json:"answer"`
	AnsweredBy string     `json:"answered_by"`
	AnsweredAt time.Time  `json:"answered_at"`

	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	FinishedAt time.Time `json:"finished_at"`

	Attempts []Attempt `json:"attempts"`
	Blockers []Blocker `json:"blockers"`
}

// UnmarshalJSON reads an alarm of the service. It ignores members that it does not know; Raw has them.
func (a *Alarm) UnmarshalJSON(b []byte) error {
	var f alarmFields
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	if f.BusinessID == "" || f.State == "" {
		return fmt.Errorf("an alarm needs business_id and state")
	}
	payload, err := f.payload()
	if err != nil {
		return err
	}
	*a = Alarm{
		Application: f.Application, BusinessID: f.BusinessID, State: f.State, Generation: f.Generation,
		RingAt: f.RingAt, LocalRingAt: f.LocalRingAt, TimeZone: f.TimeZone, LatestRingAt: f.LatestRingAt,
		NextTryTime: f.NextTryTime, Payload: payload, ContentType: f.ContentType,
		Retry: f.Retry, AckTimeout: time.Duration(f.AckTimeout), MaxRings: f.MaxRings, Priority: f.Priority,
		Delivery: f.Delivery, Target: f.Target, Receiver: f.Receiver,
		Traceparent: f.Traceparent, Repeat: f.Repeat, RepeatSentence: f.RepeatSentence, Occurrence: f.Occurrence,
		NextOccurrences: f.NextOccurrences, RepeatEnded: f.RepeatEnded,
		RetryTimes: f.RetryTimes, RingNo: f.RingNo, InDoubt: f.InDoubt, LastError: f.LastError, RungAt: f.RungAt,
		Answer: f.Answer, AnsweredBy: f.AnsweredBy, AnsweredAt: f.AnsweredAt,
		CreatedAt: f.CreatedAt, UpdatedAt: f.UpdatedAt, FinishedAt: f.FinishedAt, Attempts: f.Attempts,
		Blockers: f.Blockers,
		Raw:      append(json.RawMessage(nil), b...),
	}
	return nil
}
