package clockhttp

import (
	"strconv"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

// repeatFields are the members of repeat.
var repeatFields = []string{
	"cron", "time_zone", "every", "anchor", "from", "until", "skip_dates", "times", "jitter", "latest_after", "missed",
	"missed_limit", "missed_window", "overlap", "pause_after", "dst",
}

// repeatSpec reads the members of repeat.
type repeatSpec struct {
	spec            repeat.Spec
	anchor          clock.Instant // NoInstant: not given
	from, until     clock.Instant // the same
	every, jitter   time.Duration
	latestAfter     time.Duration
	missedWindow    time.Duration
	missed, overlap string
	times           int
}

// repeat reads the rule of an alarm that rings again.
func (d *setDecoder) repeat(raw []byte) (err error) {
	d.body.set.Repeat, err = decodeRule(raw)
	return err
}

// decodeRule reads a rule, nil of null. Each refusal names the member of repeat.
func decodeRule(raw []byte) (*repeat.Rule, error) {
	if isNull(raw) {
		return nil, nil //nolint:nilnil // no rule is no error
	}
	ms, ok := objectMembers(raw)
	if !ok {
		return nil, wrongType("repeat",
			`an object like {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"} or {"every": "1h"}`, raw)
	}
	r := repeatSpec{anchor: clock.NoInstant, from: clock.NoInstant, until: clock.NoInstant}
	seen, err := ms.each("repeat.", r.member)
	if err != nil {
		return nil, err
	}
	rule, err := clock.ParseRule(r.complete())
	if err != nil {
		return nil, err
	}
	return rule, r.refuseZeros(seen)
}

// refuseZeros refuses members that are 0. A rule cannot tell them from members that are not given.
func (r *repeatSpec) refuseZeros(seen map[string]bool) error {
	for _, member := range [...]struct {
		name string
		zero bool
		span string
	}{
		{"times", r.times == 0, "1 to 1000000000"},
		{"latest_after", r.latestAfter == 0, "1 ms to 366 days"},
		{"missed_limit", r.spec.MissedLimit == 0, "1 to 1000"},
		{"missed_window", r.missedWindow == 0, "10 s to 366 days"},
		{"pause_after", r.spec.PauseAfter == 0, "1 to 1000"},
	} {
		if field := "repeat." + member.name; seen[member.name] && member.zero {
			return clock.Invalid(clock.CodeOutOfRange, field, field+" must be from "+member.span)
		}
	}
	return nil
}

func (r *repeatSpec) member(name string, raw []byte) error {
	field := "repeat." + name
	switch name {
	case "cron":
		return decodeString(raw, field, &r.spec.Cron)
	case "time_zone":
		return decodeString(raw, field, &r.spec.TimeZone)
	case "every":
		return decodeDuration(raw, field, &r.every)
	case "anchor":
		return decodeAnchor(raw, field, &r.anchor)
	case "from":
		return decodeInstant(raw, field, &r.from)
	case "until":
		return decodeInstant(raw, field, &r.until)
	case "skip_dates":
		return decodeDates(raw, field, &r.spec.SkipDates)
	case "times":
		return decodeInt(raw, field, &r.times)
	case "jitter":
		return decodeDuration(raw, field, &r.jitter)
	case "latest_after":
		return decodeDuration(raw, field, &r.latestAfter)
	case "missed":
		return decodeString(raw, field, &r.missed)
	case "missed_limit":
		return decodeInt(raw, field, &r.spec.MissedLimit)
	case "missed_window":
		return decodeDuration(raw, field, &r.missedWindow)
	case "overlap":
		return decodeString(raw, field, &r.overlap)
	case "pause_after":
		return decodeInt(raw, field, &r.spec.PauseAfter)
	case "dst":
		return decodeString(raw, field, &r.spec.DST)
	}
	return unknownField("repeat.", name, append([]string(nil), repeatFields...))
}

// decodeDates reads the dates of skip_dates, and the first one of too many.
func decodeDates(raw []byte, field string, into *[]string) error {
	return decodeTexts(raw, field, `["2026-12-25"]`, func(date string) error {
		if len(*into) <= repeat.MaxSkipDates {
			*into = append(*into, date)
		}
		return nil
	})
}

// decodeAnchor reads an instant that may be near the epoch: no number looks like seconds.
func decodeAnchor(raw []byte, field string, into *clock.Instant) error {
	if isNumber(raw) {
		if n, err := wholeNumber(raw, field); err == nil && clock.Instant(n).Valid() {
			*into = clock.Instant(n)
			return nil
		}
	}
	return decodeInstant(raw, field, into)
}

// complete returns the spec with the members that are read in another type.
func (r *repeatSpec) complete() repeat.Spec {
	s := r.spec
	s.Every, s.Jitter, s.LatestAfter = r.every.Milliseconds(), r.jitter.Milliseconds(), r.latestAfter.Milliseconds()
	s.MissedWindow = r.missedWindow.Milliseconds()
	s.Missed, s.Overlap, s.Times = repeat.Missed(r.missed), repeat.Overlap(r.overlap), int64(r.times)
	if r.anchor != clock.NoInstant {
		anchor := int64(r.anchor)
		s.Anchor = &anchor
	}
	if r.from != clock.NoInstant {
		s.From = int64(r.from)
	}
	if r.until != clock.NoInstant {
		s.Until = int64(r.until)
	}
	return s
}

// appendRepeat appends the members of a repeating alarm: its rule, its occurrence, and the times of the next rings.
// They are null for an alarm that rings once. An alarm that rings once at a local time shows that time.
func appendRepeat(b []byte, a *clock.Alarm) []byte {
	if a.Local != nil {
		b = appendString(append(b, `,"local_ring_at":`...), a.Local.String())
		b = appendString(append(b, `,"time_zone":`...), a.Local.TimeZone())
	}
	if !a.Progress.Repeats() {
		return append(b, `,"repeat":null,"occurrence":null`...)
	}
	b = appendRule(append(b, `,"repeat":`...), a.Repeat)
	b = appendString(append(b, `,"repeat_sentence":`...), a.Repeat.Sentence())
	p := &a.Progress
	b = strconv.AppendInt(append(b, `,"occurrence":{"number":`...), p.Current.Number, 10)
	b = appendInstant(append(b, `,"at":`...), clock.Instant(p.Current.At))
	previous, next := a.Repetition().Beside(p)
	b = appendInstant(append(b, `,"next_at":`...), next)
	b = appendInstant(append(b, `,"previous_at":`...), previous)
	b = appendInstant(append(b, `,"triggered_at":`...), p.Triggered())
	b = appendBackfill(append(b, `,"backfill":`...), a.Backfill())
	for _, count := range [...]struct {
		name string
		n    int64
	}{
		{"rung", p.Rung}, {"missed", p.Missed}, {"outside_window", p.Outside}, {"skipped", p.Skipped},
		{"failed", p.Failed}, {"failed_in_row", int64(p.FailedInRow)},
		{"lateness_ms", p.Lateness}, {"lateness_max_ms", p.LatenessMax}, {"lateness_sum_ms", p.LatenessSum},
	} {
		b = append(append(append(b, `,"`...), count.name...), `":`...)
		b = strconv.AppendInt(b, count.n, 10)
	}
	upcoming := a.Occurrences(clock.InstantOf(time.Now()), clock.ShownOccurrences, clock.ShownCounted)
	return appendList(append(b, `},"next_occurrences":`...), upcoming,
		func(o *repeat.Occurrence, b []byte) []byte { return appendInstant(b, clock.Instant(o.At)) })
}

// appendBackfill appends how far the backfill has come, null if there was none.
func appendBackfill(b []byte, p clock.BackfillProgress) []byte {
	if p == (clock.BackfillProgress{}) {
		return append(b, "null"...)
	}
	b = strconv.AppendInt(append(b, `{"left":`...), p.Left, 10)
	b = strconv.AppendInt(append(b, `,"rung":`...), p.Rung, 10)
	b = strconv.AppendInt(append(b, `,"failed":`...), p.Failed, 10)
	at, due := p.Next()
	b = appendInstant(append(b, `,"at":`...), at)
	return append(appendInstant(append(b, `,"due_at":`...), due), '}')
}

// appendRule appends the rule in the form that a set accepts.
func appendRule(b []byte, rule *repeat.Rule) []byte {
	s := rule.Spec()
	b = append(b, '{')
	from := len(b)
	member := func(name string) {
		if len(b) > from {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), name...), `":`...)
	}
	text := func(name, value string) {
		if value != "" {
			member(name)
			b = appendString(b, value)
		}
	}
	duration := func(name string, ms int64) {
		if ms != 0 {
			member(name)
			b = appendDuration(b, time.Duration(ms)*time.Millisecond)
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			member(name)
			b = strconv.AppendInt(b, n, 10)
		}
	}
	text("cron", s.Cron)
	text("time_zone", s.TimeZone)
	duration("every", s.Every)
	if s.Anchor != nil {
		member("anchor")
		b = appendInstant(b, clock.Instant(*s.Anchor))
	}
	for _, bound := range []struct {
		name string
		at   int64
	}{{"from", s.From}, {"until", s.Until}} {
		if bound.at != 0 {
			member(bound.name)
			b = appendInstant(b, clock.Instant(bound.at))
		}
	}
	if len(s.SkipDates) > 0 {
		member("skip_dates")
		b = appendList(b, s.SkipDates, appendText)
	}
	number("times", s.Times)
	duration("jitter", s.Jitter)
	duration("latest_after", s.LatestAfter)
	text("missed", string(s.Missed))
	number("missed_limit", int64(s.MissedLimit))
	duration("missed_window", s.MissedWindow)
	text("overlap", string(s.Overlap))
	number("pause_after", int64(s.PauseAfter))
	text("dst", s.DST)
	return append(b, '}')
}
