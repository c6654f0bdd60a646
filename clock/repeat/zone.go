package repeat

import (
	"math"
	"sort"
	"time"
)

// zone is a time zone of the time-zone data.
type zone struct{ location *time.Location }

// loadZone returns the zone with an IANA name, in exactly its spelling.
func loadZone(name string) (zone, error) { return Data().zone(name) }

// span is a range of instants with one offset from UTC, in seconds. The end is exclusive.
type span struct{ start, end, offset int64 }

// spanAt returns a span that contains an instant. Two spans that touch may have the same offset.
func (z zone) spanAt(second int64) span {
	at := time.Unix(second, 0).In(z.location)
	s := span{start: math.MinInt64, end: math.MaxInt64, offset: z.offset(second)}
	start, end := at.ZoneBounds()
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.start != math.MinInt64 && z.offset(s.start) != s.offset {
		s.start = z.startOfOffset(s.start, second)
	}
	if s.end <= second {
		s.end = z.endOfOffset(second)
	}
	return s
}

// offset returns the offset at an instant.
func (z zone) offset(second int64) int64 {
	_, offset := time.Unix(second, 0).In(z.location).Zone()
	return int64(offset)
}

// startOfOffset returns the start of the span of an instant whose start ZoneBounds has placed too early. After the last
// transition of the data ZoneBounds goes by the rule for later years, but that transition may be at another time:
// Winamac changed from Central to Eastern Time on 2007-03-11, when its summer time began.
func (z zone) startOfOffset(early, second int64) int64 {
	offset := z.offset(second)
	return early + int64(sort.Search(int(second-early),
		func(n int) bool { return z.offset(early+int64(n)) == offset }))
}

// endOfOffset returns an end for the span of an instant whose end ZoneBounds does not know. On 31 December of a leap
// year it returns an end that has passed, because it takes each year for 365 days. The end is the next midnight in UTC,
// or the first change of the offset before it.
func (z zone) endOfOffset(second int64) int64 {
	midnight := floorDiv(second, daySeconds)*daySeconds + daySeconds
	offset := z.offset(second)
	return second + int64(sort.Search(int(midnight-second),
		func(n int) bool { return z.offset(second+int64(n)) != offset }))
}

// shiftBound is longer than the difference of any two offsets, in seconds.
const shiftBound = 48 * 60 * 60

// highestLabel returns the latest label that the local clock has shown until an instant, inclusive. Labels are seconds.
func (z zone) highestLabel(second int64) int64 {
	s := z.spanAt(second)
	highest := second + s.offset
	for s.start > second-shiftBound {
		last := s.start - 1
		s = z.spanAt(last)
		highest = max(highest, last+s.offset)
	}
	return highest
}

// lowestLabel returns the earliest label that the local clock shows from an instant on.
func (z zone) lowestLabel(second int64) int64 {
	s := z.spanAt(second)
	lowest := second + s.offset
	for s.end < second+shiftBound {
		first := s.end
		s = z.spanAt(first)
		lowest = min(lowest, first+s.offset)
	}
	return lowest
}

// reach returns the first instant at which the local clock shows a label or a later one. Both are in milliseconds.
func (z zone) reach(label int64) int64 {
	s := z.spanAt(floorDiv(label, 1000) - shiftBound)
	for {
		if at := label - s.offset*1000; s.end == math.MaxInt64 || at < s.end*1000 {
			if s.start == math.MinInt64 {
				return at
			}
			return max(at, s.start*1000)
		}
		s = z.spanAt(s.end)
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
