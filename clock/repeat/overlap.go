package repeat

// Overlap is the effect of an occurrence that comes due while an earlier ring of the alarm is not over: it is retried, in doubt or not
// acknowledged.
type Overlap string

// The effects of an overlapping occurrence.
const (
	OverlapSkip     Overlap = "skip"      // it does not ring. Default, also written as ""
	OverlapQueueOne Overlap = "queue_one" // it rings when the earlier ring is over; while one occurrence waits, later ones do not ring
)

func (o Overlap) valid() bool { return o == "" || o == OverlapSkip || o == OverlapQueueOne }

// Admission is the decision about an occurrence that has come due.
type Admission int

// The decisions about an occurrence.
const (
	RingNow Admission = iota
	Wait              // rings when the earlier ring is over
	Skip              // does not ring; it counts as skipped
)

// Admit decides about an occurrence that has come due. busy reports whether an earlier ring of the alarm is not over, waiting whether an
// occurrence waits for its end. The order of occurrences is kept: an occurrence behind a waiting one never rings before it.
//
// The late rings of MissedAll are one list that rings in order. Admit decides about the list as a whole, and not about its elements.
func (r Rule) Admit(busy, waiting bool) Admission {
	switch {
	case !busy && !waiting:
		return RingNow
	case r.spec.Overlap == OverlapQueueOne && !waiting:
		return Wait
	default:
		return Skip
	}
}
