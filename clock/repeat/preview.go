package repeat

import "time"

// Preview is what a rule will do, without an alarm.
type Preview struct {
	Occurrences []Occurrence // the first ones, in order; empty: there is none
	Change      *ClockChange // the next change of the local clock; nil: there is none
}

// ClockChange is a change of a local clock, with the occurrences around it.
type ClockChange struct {
	At            int64   // first instant with the new offset, in epoch ms
	Before, After int64   // offsets from UTC, in seconds
	Occurrences   []int64 // at most mostAround, in epoch ms, in order
}

// mostAround is the most occurrences around a change of the clock.
const mostAround = 10

// Preview returns at most count occurrences after an instant, and those around the next change of the clock. A period
// without an anchor counts from the instant.
func (r Rule) Preview(after int64, count int) Preview {
	r = r.Anchored(Rule{}, after)
	var p Preview
	if first, ok := r.First(after); ok {
		p.Occurrences = r.Occurrences(first, count)
	}
	p.Change = r.NextChange(after)
	return p
}

// NextChange returns the next change of the local clock after an instant, and not before From; nil: there is none.
func (r Rule) NextChange(after int64) *ClockChange {
	if r.cron == nil {
		return nil
	}
	s, next, ok := r.zone.nextChange(floorDiv(max(after, r.spec.From), 1000))
	if !ok {
		return nil
	}
	at := next.start * 1000
	return &ClockChange{At: at, Before: s.offset, After: next.offset, Occurrences: r.around(at)}
}

// around returns the occurrences within some time before and after an instant. The time depends on the rule: it is long
// for a rule that rings monthly, and short for one that rings each second.
func (r Rule) around(at int64) (list []int64) {
	for _, within := range []time.Duration{
		60 * 24 * time.Hour, 8 * 24 * time.Hour, 3 * 24 * time.Hour, 25 * time.Hour, 3 * time.Hour, time.Hour,
		10 * time.Minute, 2 * time.Minute, 3 * time.Second,
	} {
		list = list[:0]
		next, ok := r.Next(at - within.Milliseconds() - 1)
		for ok && next <= at+within.Milliseconds() && len(list) <= mostAround {
			list = append(list, next)
			next, ok = r.Next(next)
		}
		if len(list) <= mostAround {
			break
		}
	}
	return list
}

// shownLayout is RFC 3339 with milliseconds where there are some.
const shownLayout = "2006-01-02T15:04:05.999Z07:00"

// Local returns the time that the local clock shows at an instant, with its offset: 2026-10-25T02:30:00+02:00. The
// local clock of a period shows UTC.
func (r Rule) Local(at int64) string {
	location := time.UTC
	if r.cron != nil {
		location = r.zone.location
	}
	return time.UnixMilli(at).In(location).Format(shownLayout)
}

// nextChange returns the span of an instant and the first later one with another offset.
func (z zone) nextChange(second int64) (s, next span, ok bool) {
	const mostSpans = 1000
	s = z.spanAt(second)
	next = s
	for i := 0; i < mostSpans && next.end < maxInstant/1000; i++ { // spans that touch may have the same offset
		start := next.end
		next = z.spanAt(start)
		if next.offset != s.offset {
			next.start = start
			return s, next, true
		}
	}
	return s, next, false
}
