package client

import (
	"context"
	"encoding/json"
	"time"
)

// Occurrence is the current occurrence of a repeating alarm, and the counts of its generation.
type Occurrence struct {
	Number     int64     // 1 for the first occurrence of a generation
	At         time.Time // its time, without jitter
	NextAt     time.Time // time of the next occurrence; zero: this is the last one
	PreviousAt time.Time // time of the occurrence before it, whether it rang or not; zero: this is the first one

	// TriggeredAt is when a person triggered the ring that is due now or in flight, and rings before this occurrence;
	// zero: there is none.
	TriggeredAt time.Time
	Backfill    *BackfillProgress // the current backfill, or the latest of the generation; nil: none

	Rung          int64 // occurrences that ended after a ring
	Missed        int64 // occurrences that came due while nothing could ring them
	OutsideWindow int64 // missed occurrences that were older than Repeat.MissedWindow; they are not in Missed
	Skipped       int64 // occurrences that came due while an earlier ring was not over
	Failed        int64 // occurrences that ended after failed or unacknowledged rings
	FailedInRow   int   // failed occurrences since the last rung one, and since the last resume

	Lateness    time.Duration // of the latest occurrence that rang
	LatenessMax time.Duration // of all occurrences that rang
	LatenessSum time.Duration // of all occurrences that rang
}

// BackfillProgress is how far a backfill has come.
type BackfillProgress struct {
	Left   int64     `json:"left"`   // rings that are not over; 0: the backfill is over
	Rung   int64     `json:"rung"`   // rings that were confirmed, and acknowledged where the alarm wants that
	Failed int64     `json:"failed"` // rings that ended otherwise
	At     time.Time `json:"at"`     // occurrence that rings now, or next; zero: the backfill is over
	DueAt  time.Time `json:"due_at"` // earliest time of that ring; zero: the backfill is over
}

// UnmarshalJSON reads an occurrence of the service.
func (o *Occurrence) UnmarshalJSON(b []byte) error {
	var f struct {
		Number      int64     `json:"number"`
		At          time.Time `json:"at"`
		NextAt      time.Time `json:"next_at"`
		PreviousAt  time.Time `json:"previous_at"`
		TriggeredAt time.Time `json:"triggered_at"`

		Backfill *BackfillProgress `json:"backfill"`

		Rung          int64 `json:"rung"`
		Missed        int64 `json:"missed"`
		OutsideWindow int64 `json:"outside_window"`
		Skipped       int64 `json:"skipped"`
		Failed        int64 `json:"failed"`
		FailedInRow   int   `json:"failed_in_row"`
		Lateness      int64 `json:"lateness_ms"`
		LatenessMax   int64 `json:"lateness_max_ms"`
		LatenessSum   int64 `json:"lateness_sum_ms"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*o = Occurrence{
		Number: f.Number, At: f.At, NextAt: f.NextAt, PreviousAt: f.PreviousAt,
		TriggeredAt: f.TriggeredAt, Backfill: f.Backfill,
		Rung: f.Rung, Missed: f.Missed,
		OutsideWindow: f.OutsideWindow, Skipped: f.Skipped, Failed: f.Failed, FailedInRow: f.FailedInRow,
		Lateness:    time.Duration(f.Lateness) * time.Millisecond,
		LatenessMax: time.Duration(f.LatenessMax) * time.Millisecond,
		LatenessSum: time.Duration(f.LatenessSum) * time.Millisecond,
	}
	return nil
}

// Occurrences are the next occurrences of a repeating alarm.
type Occurrences struct {
	Sentence     string // when the rule rings: "at 09:00 on Monday to Friday, Europe/Berlin"; "" from an older service
	TimeZoneData string // version of the IANA time-zone data, such as 2025c
	// List begins with the current occurrence if it rings or waits for a further try, and has those after now. It is
	// empty when the alarm is over.
	List []NextOccurrence

	Raw json.RawMessage // the response as the service wrote it
}

// NextOccurrence is an occurrence as the rule gives it.
type NextOccurrence struct {
	Number int64     `json:"number"`  // 1 for the first occurrence of a generation; 0: too many have passed to count
	At     time.Time `json:"at"`      // its time, without jitter
	RingAt time.Time `json:"ring_at"` // time of its ring: its time plus its jitter
	Local  string    `json:"local"`   // what a clock in the rule's time zone shows then: 2026-10-25T02:30:00+02:00
}

// UnmarshalJSON reads a list of the service.
func (o *Occurrences) UnmarshalJSON(b []byte) error {
	var f struct {
		Sentence     string           `json:"sentence"`
		TimeZoneData string           `json:"time_zone_data"`
		Occurrences  []NextOccurrence `json:"occurrences"`
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return err
	}
	*o = Occurrences{
		Sentence: f.Sentence, TimeZoneData: f.TimeZoneData, List: f.Occurrences, Raw: append(json.RawMessage(nil), b...),
	}
	return nil
}

// Occurrences returns the next occurrences of a repeating alarm, at most count, from 1 to 1000; 0 means 10. An alarm
// that rings once is an error with CodeRingsOnce.
func (c *Client) Occurrences(ctx context.Context, application, businessID string, count int) (*Occurrences, error) {
	q := newQuery()
	q.number("count", count)
	return read[Occurrences](ctx, c, q.of(alarmPath(application, businessID)+"/occurrences"))
}
