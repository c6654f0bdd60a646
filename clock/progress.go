package clock

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/clockd/clockd/clock/repeat"
)

// MissedGrace is the longest lateness of an occurrence that still rings although its rule skips missed occurrences
// (repeat.MissedSkip).
const MissedGrace = 10_000 // milliseconds

// Progress is how far a repeating alarm has come. The zero Progress belongs to an alarm that rings once. All instants
// are epoch milliseconds.
type Progress struct {
	Current repeat.Occurrence // occurrence that rings now, or next
	Next    repeat.Occurrence // occurrence after Current; it is decided to ring if it is not later than DecidedUntil; Number 0: Current is the last one
	// DecidedUntil is when it was last decided which occurrences ring. Occurrences that were due then ring in order,
	// without another decision.
	DecidedUntil int64
	Label        int64 // repeat.Rule.Label of Current, by the time-zone data that computed it; 0: none
	PreviousAt   int64 // occurrence before Current, whether it rang or not; 0: Current is the first one, or a build stored the row that does not know this field
	RingsBefore  int   // confirmed rings of the generation before Current
	Queued       bool  // Current waited for the end of an earlier ring: it rings, and occurrences after it were skipped for it
	// UnansweredUntil is until when the last ring waits for its acknowledgement, if the alarm was paused meanwhile. 0: it
	// does not.
	UnansweredUntil int64
	Kicked          bool // a person has kicked Current: it may ring however late
	// TriggeredAt is when a person asked for the ring that the row waits for, besides the occurrences: Current is the
	// one that rings next after it. 0: the row waits for Current itself, or for a ring of Backfill.
	TriggeredAt int64
	Backfill    BackfillProgress

	Ended            Count // count of the occurrence that ended the alarm; NoCount: none, or it is not over
	OccurrenceCounts       // of the generation
	FailedInRow      int   // failed occurrences since the last rung one, and since the last resume

	// Lateness of occurrences with a confirmed ring, also if they were not acknowledged later, in ms: the claim of the
	// first confirmed ring minus the occurrence's RingAt, which has the jitter.
	Lateness    int64 // of the latest one
	LatenessMax int64 // of all
	LatenessSum int64 // of all
}

// BackfillProgress is how far a backfill has come. The zero BackfillProgress belongs to an alarm that never had one, in
// this generation.
type BackfillProgress struct {
	At     int64 // occurrence that rings now, or next
	Label  int64 // repeat.Rule.Label of At, by the time-zone data that computed it; 0: none
	DueAt  int64 // earliest time of that ring
	Pace   int64 // from the end of a ring until the next one may begin, in ms
	Left   int64 // unfinished rings, including the ring of At; 0: the backfill is over
	Rung   int64 // rings that ended as OccurrenceCounts.Rung says
	Failed int64 // rings that ended otherwise
	Rings  bool  // the row waits for the ring of At, besides the occurrences
}

// Count names a count of OccurrenceCounts that a kick takes back.
type Count int8

// The counts.
const (
	NoCount Count = iota
	FailedCount
	MissedCount
	OutsideCount
	SkippedCount
)

// OccurrenceCounts counts occurrences by how they ended.
type OccurrenceCounts struct {
	Rung    int64 // ended after a ring, acknowledged where that is wanted
	Missed  int64 // came due while nothing could ring them, and did not ring; Outside has further ones
	Outside int64 // missed, and older than the rule's missed_window
	Skipped int64 // came due while an earlier ring was not over, and did not ring
	Failed  int64 // ended without a confirmed or acknowledged ring, after at least one try
}

// Since returns the counts without earlier ones.
func (c *OccurrenceCounts) Since(before OccurrenceCounts) OccurrenceCounts {
	return OccurrenceCounts{
		Rung: c.Rung - before.Rung, Missed: c.Missed - before.Missed, Outside: c.Outside - before.Outside,
		Skipped: c.Skipped - before.Skipped, Failed: c.Failed - before.Failed,
	}
}

// Add adds other counts.
func (c *OccurrenceCounts) Add(other OccurrenceCounts) {
	c.Rung, c.Missed, c.Outside = c.Rung+other.Rung, c.Missed+other.Missed, c.Outside+other.Outside
	c.Skipped, c.Failed = c.Skipped+other.Skipped, c.Failed+other.Failed
}

// storedProgress is the JSON of a Progress in a database column. The view alarm_report reads its members.
type storedProgress struct {
	Number       int64 `json:"n"`
	At           int64 `json:"at"`
	NextNumber   int64 `json:"next,omitempty"`
	NextAt       int64 `json:"next_at,omitempty"`
	DecidedUntil int64 `json:"decided,omitempty"`
	Label        int64 `json:"label,omitempty"`
	PreviousAt   int64 `json:"prev_at,omitempty"`
	RingsBefore  int   `json:"rings,omitempty"`
	Queued       bool  `json:"queued,omitempty"`
	Kicked       bool  `json:"kicked,omitempty"`
	Unanswered   int64 `json:"unanswered,omitempty"`
	Ended        Count `json:"ended,omitempty"`
	TriggeredAt  int64 `json:"triggered,omitempty"`
	// Backfill is at, label, due, pace, left, rung, failed, and 1 while the row waits for its ring.
	Backfill    []int64 `json:"backfill,omitempty"`
	Rung        int64   `json:"rung,omitempty"`
	Missed      int64   `json:"missed,omitempty"`
	Outside     int64   `json:"outside,omitempty"`
	Skipped     int64   `json:"skipped,omitempty"`
	Failed      int64   `json:"failed,omitempty"`
	FailedInRow int     `json:"failed_in_row,omitempty"`
	Lateness    int64   `json:"late,omitempty"`
	LatenessMax int64   `json:"late_max,omitempty"`
	LatenessSum int64   `json:"late_sum,omitempty"`
}

// Repeats reports whether the progress belongs to a repeating alarm. Such an alarm has a rule: stores refuse to read a
// row without it.
func (p *Progress) Repeats() bool { return p.Current.Number != 0 }

// Triggered returns when a person asked for the ring that the row waits for; NoInstant: there is no such ring.
func (p *Progress) Triggered() Instant {
	return instantOrNone(p.TriggeredAt)
}

// unplannedAt returns when the ring besides the occurrences is due for which the row waits: a triggered ring, or one of
// a backfill. 0: the row waits for the current occurrence.
func (p *Progress) unplannedAt() int64 {
	if p.Backfill.Rings {
		return p.Backfill.DueAt
	}
	return p.TriggeredAt
}

// Beside returns the times of the occurrences before and after the current one, by the rule: it does not matter whether
// they ring. NoInstant: there is none.
func (r Repetition) Beside(p *Progress) (previous, next Instant) {
	following := p.Next
	if p.Queued || p.Kicked { // Next comes after the occurrences that were skipped meanwhile
		following = r.following(p.Current)
	}
	next = NoInstant
	if following.Number != 0 {
		next = Instant(following.At)
	}
	return instantOrNone(p.PreviousAt), next
}

// instantOrNone returns the instant of a field in which 0 means none.
func instantOrNone(ms int64) Instant {
	if ms == 0 {
		return NoInstant
	}
	return Instant(ms)
}

// Encode returns the text for the database column; empty for the zero Progress. Equal values have the same text.
func (p *Progress) Encode() string {
	if !p.Repeats() {
		return ""
	}
	text, err := json.Marshal(storedProgress{
		Number: p.Current.Number, At: p.Current.At, NextNumber: p.Next.Number, NextAt: p.Next.At,
		DecidedUntil: p.DecidedUntil, Label: p.Label, PreviousAt: p.PreviousAt, RingsBefore: p.RingsBefore,
		Queued: p.Queued, Kicked: p.Kicked, Unanswered: p.UnansweredUntil, Ended: p.Ended, TriggeredAt: p.TriggeredAt, Backfill: p.Backfill.encode(),
		Rung: p.Rung, Missed: p.Missed, Outside: p.Outside, Skipped: p.Skipped, Failed: p.Failed, FailedInRow: p.FailedInRow,
		Lateness: p.Lateness, LatenessMax: p.LatenessMax, LatenessSum: p.LatenessSum,
	})
	if err != nil { // no field has a type that fails
		panic("clock: encode a progress: " + err.Error())
	}
	return string(text)
}

// ended returns a backfill that is over.
func (b *BackfillProgress) ended() BackfillProgress {
	return BackfillProgress{Rung: b.Rung, Failed: b.Failed}
}

// Next returns the occurrence that rings now, or next, and the earliest time of that ring; NoInstant: the backfill is
// over.
func (b *BackfillProgress) Next() (at, due Instant) {
	return instantOrNone(b.At), instantOrNone(b.DueAt)
}

// encode returns the elements of storedProgress.Backfill.
func (b *BackfillProgress) encode() []int64 {
	if *b == (BackfillProgress{}) {
		return nil
	}
	rings := int64(0)
	if b.Rings {
		rings = 1
	}
	return []int64{b.At, b.Label, b.DueAt, b.Pace, b.Left, b.Rung, b.Failed, rings}
}

// decodeBackfill reads what encode returned.
func decodeBackfill(n []int64) (b BackfillProgress, ok bool) {
	if len(n) == 0 {
		return b, true
	}
	if len(n) != 8 || slices.Min(n) < 0 || max(n[0], n[1], n[2]) > int64(MaxInstant) || n[7] > min(n[4], 1) {
		return b, false
	}
	return BackfillProgress{
		At: n[0], Label: n[1], DueAt: n[2], Pace: n[3], Left: n[4], Rung: n[5], Failed: n[6], Rings: n[7] == 1,
	}, true
}

// DecodeProgress reads a Progress that Encode wrote.
func DecodeProgress(text string) (Progress, error) {
	if text == "" {
		return Progress{}, nil
	}
	var s storedProgress
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		return Progress{}, fmt.Errorf("decode %.100q: %w", text, err)
	}
	backfill, ok := decodeBackfill(s.Backfill)
	if !ok || s.Unanswered < 0 || s.Unanswered > int64(MaxInstant) || s.Ended < NoCount || s.Ended > SkippedCount || s.Number < 1 || s.At < 0 || s.At > int64(MaxInstant) || s.NextNumber < 0 || s.RingsBefore < 0 ||
		s.PreviousAt < 0 || s.PreviousAt > int64(MaxInstant) || s.TriggeredAt < 0 || s.TriggeredAt > int64(MaxInstant) {
		return Progress{}, fmt.Errorf("decode %.100q: a value is out of range", text)
	}
	return Progress{
		Current:      repeat.Occurrence{At: s.At, Number: s.Number},
		Next:         repeat.Occurrence{At: s.NextAt, Number: s.NextNumber},
		DecidedUntil: s.DecidedUntil, Label: s.Label, PreviousAt: s.PreviousAt, RingsBefore: s.RingsBefore,
		Queued: s.Queued, Kicked: s.Kicked, UnansweredUntil: s.Unanswered, Ended: s.Ended, TriggeredAt: s.TriggeredAt, Backfill: backfill, FailedInRow: s.FailedInRow,
		OccurrenceCounts: OccurrenceCounts{
			Rung: s.Rung, Missed: s.Missed, Outside: s.Outside, Skipped: s.Skipped, Failed: s.Failed,
		},
		Lateness: s.Lateness, LatenessMax: s.LatenessMax, LatenessSum: s.LatenessSum,
	}, nil
}

// Repetition is a repeating alarm's rule, with the alarm that jitter is drawn for. The zero Repetition belongs to an
// alarm that rings once.
type Repetition struct {
	Rule  *repeat.Rule // nil: the alarm rings once
	Alarm repeat.Ringer
}

// RepetitionOf returns the repetition of an alarm's generation. rule is nil for an alarm that rings once.
func RepetitionOf(rule *repeat.Rule, key Key, generation int64) Repetition {
	if rule == nil {
		return Repetition{}
	}
	return Repetition{Rule: rule,
		Alarm: repeat.Ringer{Application: key.Application, BusinessID: key.BusinessID, Generation: generation}}
}

// RingAt returns when the occurrence is to ring.
func (r Repetition) RingAt(o repeat.Occurrence) Instant { return Instant(r.Rule.RingAt(r.Alarm, o)) }

// DueAt returns the due time of the ring that the row waits for: of the current occurrence, a triggered ring, or a
// backfill.
func (r Repetition) DueAt(p *Progress) Instant {
	if at := p.unplannedAt(); at != 0 {
		return Instant(at)
	}
	return r.RingAt(p.Current)
}

// Latest returns the last instant at which the ring that the row waits for may ring; NoInstant: however late.
func (r Repetition) Latest(p *Progress) Instant {
	if p.Kicked || p.unplannedAt() != 0 {
		return NoInstant
	}
	return Instant(r.Rule.Latest(r.Alarm, p.Current))
}

// first returns the progress of a new generation. ok is false if the rule has no occurrence after now.
func (r Repetition) first(now Instant) (p Progress, ok bool) {
	o, ok := r.Rule.First(int64(now))
	if ok {
		r.begin(&p, o)
	}
	return p, ok
}

// begin makes an occurrence the current one. It is not before the current one.
func (r Repetition) begin(p *Progress, o repeat.Occurrence) {
	switch o.Number {
	case p.Current.Number:
	case p.Current.Number + 1:
		p.PreviousAt = p.Current.At // 0 before the first one
	default:
		p.PreviousAt = r.Rule.Before(o)
	}
	p.Current, p.Next, p.Label = o, r.following(o), r.Rule.Label(o.At)
}

// following returns the occurrence after o, with Number 0 if o is the last one.
func (r Repetition) following(o repeat.Occurrence) repeat.Occurrence {
	next, ok := r.Rule.Following(o)
	if !ok {
		return repeat.Occurrence{}
	}
	return next
}

// afterBackfilled returns the occurrence after the one that the backfill rings for. Other time-zone data may have
// computed that one.
func (r Repetition) afterBackfilled(b *BackfillProgress) (next repeat.Occurrence, ok bool) {
	return r.Rule.FollowingLabel(repeat.Occurrence{At: b.At}, b.Label)
}

// begun reports whether the current occurrence, or the ring besides it, has been tried, so that it rings again under its
// own number until it is over.
func (r *RingRow) begun() bool {
	return r.RetryTimes > 0 || r.InDoubt || r.Claimed() || r.RingNo > r.Progress.RingsBefore
}

// undecide lets the next claim decide again which occurrences ring, unless the current one has begun, occurrences after
// it were skipped for it, or the row waits for another ring before it.
func (r *RingRow) undecide() {
	if !r.begun() && !r.Progress.Queued && r.Progress.unplannedAt() == 0 {
		r.Progress.DecidedUntil = 0
	}
}

// ParseRule returns the rule that a set's repeat asks for. A refusal names the member of repeat, and the place of the
// fault in an expression.
func ParseRule(spec repeat.Spec) (*repeat.Rule, error) {
	rule, err := repeat.Parse(spec)
	if refused, ok := errors.AsType[*repeat.Error](err); ok {
		return nil, invalidSchedule("repeat."+refused.Field, refused)
	}
	if err != nil {
		return nil, err
	}
	return &rule, nil
}

// SetLocalTime sets the local time that a set asks for, and RingAt. A refusal names field, the request's field with the
// local time, or time_zone.
func (c *Content) SetLocalTime(text, timeZone, field string) error {
	local, err := repeat.ParseLocal(text, timeZone)
	if refused, ok := errors.AsType[*repeat.Error](err); ok {
		if refused.Field == "time_zone" {
			field = refused.Field
		}
		return invalidSchedule(field, refused)
	}
	if err != nil {
		return err
	}
	c.Local, c.RingAt = &local, Instant(local.Instant())
	return nil
}

func invalidSchedule(field string, refused *repeat.Error) error {
	detail := field + ": " + refused.Reason
	if refused.Position > 0 {
		detail += " (at character " + strconv.Itoa(refused.Position) + ")"
	}
	return Invalid(CodeInvalidValue, field, detail)
}
