package repeat

// Steps are equal steps of time, with a number of rings in each.
type Steps struct {
	From   int64   // begin of the first step, in epoch ms
	Length int64   // of a step, in ms; not 0
	Counts []int64 // of the steps in order
}

// Until returns the end of the last step.
func (s *Steps) Until() int64 { return s.From + int64(len(s.Counts))*s.Length }

// CountRings adds the rings of o and of the occurrences after it to the steps: those after an instant. It reads about
// that many occurrences at most, and returns how many. exact is false if it would have to read more: then the rings
// from until on are missing, or Times was not heeded.
func (r Rule) CountRings(
	alarm Ringer, o Occurrence, after int64, s *Steps, most int,
) (read int, until int64, exact bool) {
	if r.cron == nil && r.spec.Jitter == 0 {
		r.countPeriods(o, after, s)
		return 1, s.Until(), true
	}
	begin, end := max(s.From, after+1), s.Until()
	count := func(o Occurrence) {
		if at := r.RingAt(alarm, o); at >= begin && at < end {
			s.Counts[(at-s.From)/s.Length]++
		}
	}
	o, read, exact = r.approach(o, begin, most/2)
	count(o)
	for ; read < most; read++ {
		next, ok := r.Following(o)
		if !ok || next.At >= end {
			return read, end, exact
		}
		count(next)
		o = next
	}
	return read, o.At, false
}

// approach returns the last occurrence from o on that is before an instant; o, if it is not before it. An earlier one
// rings before the instant, because its ring comes before the next occurrence. approach reads at most that many
// occurrences. exact is false if these are too few: then the number is too small.
func (r Rule) approach(o Occurrence, begin int64, most int) (last Occurrence, read int, exact bool) {
	o = r.jump(o, begin-1, 0)
	for ; read < most; read++ {
		next, ok := r.Following(o)
		if !ok || next.At >= begin {
			return o, read, true
		}
		if o = next; r.spec.Times == 0 { // the number does not matter
			break
		}
	}
	next, ok := r.Next(begin - 1)
	if !ok {
		return o, read, true
	}
	return Occurrence{At: max(o.At, r.Previous(next)), Number: o.Number}, read + previousReads, r.spec.Times == 0
}

// previousReads is about the number of occurrences that Previous reads.
const previousReads = 20

// countPeriods is CountRings for a period without jitter. It calculates the number of each step.
func (r Rule) countPeriods(o Occurrence, after int64, s *Steps) {
	last := int64(maxInstant)
	if r.spec.Until != 0 {
		last = r.spec.Until
	}
	if left := r.spec.Times - o.Number; r.spec.Times != 0 && left < (last-o.At)/r.spec.Every {
		last = o.At + left*r.spec.Every
	}
	until := func(at int64) int64 { // occurrences from o on, until an instant
		if at = min(at, last); at < o.At {
			return 0
		}
		return (at-o.At)/r.spec.Every + 1
	}
	counted := until(max(s.From-1, after))
	for i := range s.Counts {
		if n := until(s.From + int64(i+1)*s.Length - 1); n > counted {
			s.Counts[i] += n - counted
			counted = n
		}
	}
}
