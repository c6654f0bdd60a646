package clockgrpc

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/repeat"
)

// The names of the enumerations' values. An unspecified value has the empty name: the domain's default.
var (
	missedNames = map[clockdv1.Missed]repeat.Missed{
		clockdv1.Missed_MISSED_UNSPECIFIED: "",
		clockdv1.Missed_MISSED_ONCE:        repeat.MissedOnce,
		clockdv1.Missed_MISSED_SKIP:        repeat.MissedSkip,
		clockdv1.Missed_MISSED_ALL:         repeat.MissedAll,
	}
	overlapNames = map[clockdv1.Overlap]repeat.Overlap{
		clockdv1.Overlap_OVERLAP_UNSPECIFIED: "",
		clockdv1.Overlap_OVERLAP_SKIP:        repeat.OverlapSkip,
		clockdv1.Overlap_OVERLAP_QUEUE_ONE:   repeat.OverlapQueueOne,
	}
	dstNames = map[clockdv1.Dst]string{
		clockdv1.Dst_DST_UNSPECIFIED: "",
		clockdv1.Dst_DST_RING_ONCE:   "ring_once",
	}
)

// readRepeat reads the rule of an alarm that rings again. Each refusal names the field of the message Repeat.
func readRepeat(set *clock.Set, given *clockdv1.Repeat) error {
	spec := repeat.Spec{Cron: given.GetCron(), TimeZone: given.GetTimeZone(), Times: given.GetTimes(),
		MissedLimit: int(given.GetMissedLimit()), SkipDates: given.GetSkipDates(),
		PauseAfter: int(given.GetPauseAfter())}
	if err := readRepeatTimes(&spec, given); err != nil {
		return err
	}
	var err error
	if spec.Missed, err = nameOf(missedNames, given.GetMissed(), "repeat.missed"); err != nil {
		return err
	}
	if spec.Overlap, err = nameOf(overlapNames, given.GetOverlap(), "repeat.overlap"); err != nil {
		return err
	}
	if spec.DST, err = nameOf(dstNames, given.GetDst(), "repeat.dst"); err != nil {
		return err
	}
	set.Repeat, err = clock.ParseRule(spec)
	return err
}

// readRepeatTimes reads the instants and durations of a rule.
func readRepeatTimes(spec *repeat.Spec, given *clockdv1.Repeat) error {
	anchor, from, until := clock.NoInstant, clock.NoInstant, clock.NoInstant
	if err := readInstant(given.GetAnchor(), "repeat.anchor", &anchor); err != nil {
		return err
	}
	if err := readInstant(given.GetFrom(), "repeat.from", &from); err != nil {
		return err
	}
	if err := readInstant(given.GetUntil(), "repeat.until", &until); err != nil {
		return err
	}
	if anchor != clock.NoInstant {
		ms := int64(anchor)
		spec.Anchor = &ms
	}
	if from != clock.NoInstant {
		spec.From = int64(from)
	}
	if until != clock.NoInstant {
		spec.Until = int64(until)
	}
	for _, d := range []struct {
		given *durationpb.Duration
		field string
		into  *int64
	}{
		{given.GetEvery(), "repeat.every", &spec.Every},
		{given.GetJitter(), "repeat.jitter", &spec.Jitter},
		{given.GetLatestAfter(), "repeat.latest_after", &spec.LatestAfter},
		{given.GetMissedWindow(), "repeat.missed_window", &spec.MissedWindow},
	} {
		var span time.Duration
		if err := readDuration(d.given, d.field, &span); err != nil {
			return err
		}
		*d.into = span.Milliseconds()
	}
	return nil
}

// nameOf returns the name of an enumeration's value.
func nameOf[E ~int32, N any](names map[E]N, value E, field string) (N, error) {
	name, known := names[value]
	if !known {
		return name, clock.Invalid(clock.CodeInvalidValue, field,
			fmt.Sprintf("%s has the unknown value %d", field, value))
	}
	return name, nil
}

// valueOf returns the enumeration's value with the name; 0, the unspecified value, for the empty name.
func valueOf[E ~int32, N comparable](names map[E]N, name N) E {
	for value, n := range names {
		if n == name {
			return value
		}
	}
	return 0
}

// setRepeat sets the rule of a repeating alarm, its occurrence, and its next occurrences.
func setRepeat(m *clockdv1.Alarm, a *clock.Alarm) {
	if !a.Progress.Repeats() {
		return
	}
	m.Repeat = ruleOf(a.Repeat)
	p := &a.Progress
	previous, next := a.Repetition().Beside(p)
	m.Occurrence = &clockdv1.Occurrence{
		PreviousAt: timestampOf(previous), NextAt: timestampOf(next), TriggeredAt: timestampOf(p.Triggered()),
		Number: p.Current.Number, At: timestampOf(clock.Instant(p.Current.At)), Rung: p.Rung, Missed: p.Missed,
		OutsideWindow: p.Outside, Skipped: p.Skipped, Failed: p.Failed, FailedInRow: int32(p.FailedInRow),
		LatenessMs: p.Lateness, LatenessMaxMs: p.LatenessMax, LatenessSumMs: p.LatenessSum,
	}
	if b := a.Backfill(); b != (clock.BackfillProgress{}) {
		at, due := b.Next()
		m.Occurrence.Backfill = &clockdv1.BackfillProgress{
			Left: b.Left, Rung: b.Rung, Failed: b.Failed, At: timestampOf(at), DueAt: timestampOf(due),
		}
	}
	for _, o := range a.Occurrences(clock.InstantOf(time.Now()), clock.ShownOccurrences, clock.ShownCounted) {
		m.NextOccurrences = append(m.NextOccurrences, timestampOf(clock.Instant(o.At)))
	}
}

// ruleOf returns the message for a rule, in the form that a set accepts.
func ruleOf(rule *repeat.Rule) *clockdv1.Repeat {
	s := rule.Spec()
	m := &clockdv1.Repeat{
		Cron: s.Cron, TimeZone: s.TimeZone, Every: spanOf(s.Every), Times: s.Times, Jitter: spanOf(s.Jitter),
		LatestAfter: spanOf(s.LatestAfter),
		Missed:      valueOf(missedNames, s.Missed), MissedLimit: int32(s.MissedLimit),
		MissedWindow: spanOf(s.MissedWindow), PauseAfter: int32(s.PauseAfter),
		Overlap: valueOf(overlapNames, s.Overlap), Dst: valueOf(dstNames, s.DST), SkipDates: s.SkipDates,
	}
	if s.Anchor != nil {
		m.Anchor = timestampOf(clock.Instant(*s.Anchor))
	}
	if s.From != 0 {
		m.From = timestampOf(clock.Instant(s.From))
	}
	if s.Until != 0 {
		m.Until = timestampOf(clock.Instant(s.Until))
	}
	return m
}

// spanOf returns the message for a duration in milliseconds, nil for 0.
func spanOf(ms int64) *durationpb.Duration {
	if ms == 0 {
		return nil
	}
	return durationpb.New(time.Duration(ms) * time.Millisecond)
}
