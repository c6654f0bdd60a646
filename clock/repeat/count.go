package repeat

// Steps are equal steps of time, with a number of rings in each.
type Steps struct {
	From   int64   // begin of the first step, in epoch ms
	Length int64   // of a step, in ms; not 0
	Counts []int64 // of the steps in order
}

// Until returns the end of the last step.
func (s *Steps) Until() int64 { return s.From + int64(len(s.Counts))*s.Length }

// CountFollowing adds the rings of the occurrences after o to the steps, without those until an instant. It reads at
// most that many occurrences, and returns how many it has read. complete is false if it has read most: then the rings
// before until are counted.
func (r Rule) CountFollowing(
	alarm Ringer, o Occurrence, after int64, s *Steps, most int,
) (read int, until int64, complete bool) {
	if r.cron == nil && r.spec.Jitter == 0 {
		r.countPeriods(o, after, s)
		return 1, s.Until(), true
	}
	begin, end := max(s.From, after+1), s.Until()
	if r.spec.Times == 0 { // the numbers do not matter
		o.At = max(o.At, begin-1-r.spec.Jitter)
	}
	for ; read < most; read++ {
		next, ok := r.Following(o)
		if !ok || next.At >= end {
			return read, end, true
		}
		if at := r.RingAt(alarm, next); at >= begin && at < end {
			s.Counts[(at-s.From)/s.Length]++
		}
		o = next
	}
	return read, o.At, false
}

// countPeriods is CountFollowing for a period without jitter. It calculates the number of each step.
func (r Rule) countPeriods(o Occurrence, after int64, s *Steps) {
	last := int64(maxInstant)
	if r.spec.Until != 0 {
		last = r.spec.Until
	}
	if r.spec.Times != 0 {
		last = min(last, o.At+(r.spec.Times-o.Number)*r.spec.Every)
	}
	until := func(at int64) int64 { // occurrences after o, until an instant
		return max(0, (min(at, last)-o.At)/r.spec.Every)
	}
	counted := until(max(s.From-1, after))
	for i := range s.Counts {
		if n := until(s.From + int64(i+1)*s.Length - 1); n > counted {
			s.Counts[i] += n - counted
			counted = n
		}
	}
}
