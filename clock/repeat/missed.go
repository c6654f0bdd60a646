package repeat

// Missed is the effect of occurrences that came due while nothing could ring them.
type Missed string

// The effects of missed occurrences.
const (
	MissedOnce Missed = "once" // the latest due occurrence rings, however late; the others are missed. Default, also written as ""
	MissedSkip Missed = "skip" // the latest due occurrence rings if it is not later than the grace; the others are missed
	MissedAll  Missed = "all"  // the latest MissedLimit due occurrences ring, in order; the others are missed
)

func (m Missed) valid() bool {
	return m == "" || m == MissedOnce || m == MissedSkip || m == MissedAll
}

// Due is the decision about the occurrences until an instant.
type Due struct {
	Ring    []Occurrence // occurrences to ring now, in order
	Missed  int64        // occurrences that do not ring, because Missed or MissedLimit of the rule passes them over
	Outside int64        // occurrences that do not ring, because they are older than the rule's MissedWindow
	Next    Occurrence   // first occurrence after the others; zero if Last
	Last    bool         // no occurrence follows
	Latest  Occurrence   // with Last: the last occurrence
	More    bool         // Next is due too: the caller stores this decision and calls Due again
}

// maxScan bounds the occurrences of a cron expression that one call of Due reads.
const maxScan = 20_000

// Due decides about o, the earliest undecided occurrence, and all later occurrences whose rings are due at now. grace
// is the longest lateness, in ms, of an occurrence that MissedSkip still rings. If o is not due, the result has o as
// Next and nothing else.
//
// After a very long outage the decision has More: it rings nothing, and counts the oldest occurrences.
func (r Rule) Due(alarm Ringer, o Occurrence, now, grace int64) Due {
	if now < r.RingAt(alarm, o) {
		return Due{Next: o}
	}
	outside := r.passWindow(alarm, o, now)
	if outside.Last || outside.More || now < r.RingAt(alarm, outside.Next) {
		return outside
	}
	o = outside.Next
	keep := 1
	if r.spec.Missed == MissedAll {
		keep = r.spec.MissedLimit
	}
	d := r.scan(alarm, r.jump(o, now, keep), now, keep)
	d.Outside = outside.Outside
	if d.More {
		d.Ring, d.Next = nil, d.Ring[0]
		d.Missed = d.Next.Number - o.Number
		return d
	}
	d.Missed = d.Ring[0].Number - o.Number
	if r.spec.Missed == MissedSkip && now-r.RingAt(alarm, d.Ring[0]) > grace {
		d.Ring, d.Missed = nil, d.Missed+1
	}
	return d
}

// passWindow passes over the occurrences from o on that are older than MissedWindow. They are Outside of the result,
// and Next is the first later one. Ring and Missed are empty.
func (r Rule) passWindow(alarm Ringer, o Occurrence, now int64) Due {
	if r.spec.MissedWindow == 0 {
		return Due{Next: o}
	}
	begin, first := now-r.spec.MissedWindow, o.Number
	o = r.jump(o, begin-1, 0)
	for range maxScan {
		if r.RingAt(alarm, o) >= begin {
			return Due{Next: o, Outside: o.Number - first}
		}
		next, ok := r.Following(o)
		if !ok {
			return Due{Last: true, Latest: o, Outside: o.Number - first + 1}
		}
		o = next
	}
	return Due{Next: o, Outside: o.Number - first, More: true}
}

// jump skips occurrences of a period by arithmetic. It returns o or a later occurrence, with at least keep due
// occurrences from there on unless fewer are due. With keep 0 it is the latest one whose time, without jitter, has come.
func (r Rule) jump(o Occurrence, now int64, keep int) Occurrence {
	if r.cron != nil {
		return o
	}
	end := now
	if r.spec.Until != 0 {
		end = min(end, r.spec.Until)
	}
	due := (end-o.At)/r.spec.Every + 1
	if r.spec.Times != 0 {
		due = min(due, r.spec.Times-o.Number+1)
	}
	// One more than keep, because the ring of the latest occurrence may be later by its jitter.
	skipped := max(due-int64(keep)-1, 0)
	return Occurrence{At: o.At + skipped*r.spec.Every, Number: o.Number + skipped}
}

// scan reads the due occurrences from o on, which is due. Ring has the latest keep of them.
func (r Rule) scan(alarm Ringer, o Occurrence, now int64, keep int) Due {
	var d Due
	for range maxScan {
		if len(d.Ring) == keep {
			d.Ring = append(d.Ring[:0], d.Ring[1:]...)
		}
		d.Ring = append(d.Ring, o)
		next, ok := r.Following(o)
		switch {
		case !ok:
			d.Last, d.Latest = true, o
			return d
		case now < r.RingAt(alarm, next):
			d.Next = next
			return d
		}
		o = next
	}
	d.More = true
	return d
}
