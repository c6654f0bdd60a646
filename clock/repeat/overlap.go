package repeat

// Overlap is the effect of an occurrence that comes due while an earlier ring of the alarm is not over: it is retried,
// in doubt or not acknowledged.
type Overlap string

// The effects of an overlapping occurrence.
const (
	OverlapSkip     Overlap = "skip"      // it does not ring. Default, also written as ""
	OverlapQueueOne Overlap = "queue_one" // the first one rings when the earlier ring is over; those after it do not ring
)

func (o Overlap) valid() bool { return o == "" || o == OverlapSkip || o == OverlapQueueOne }

// Overlapped is the decision about the occurrences that came due while an earlier ring was not over.
type Overlapped struct {
	Ring    Occurrence // occurrence to ring now; Number 0: none
	Skipped int64      // occurrences that do not ring
	Next    Occurrence // first occurrence after these; zero if Last
	Last    bool       // no occurrence follows
	Latest  Occurrence // with Last: the last occurrence
}

// Overlapped decides about o, the earliest undecided occurrence, and all later occurrences whose rings are due at now,
// when the ring before them ends. Of a cron expression it decides at most maxScan occurrences.
func (r Rule) Overlapped(alarm Ringer, o Occurrence, now int64) Overlapped {
	if now < r.RingAt(alarm, o) {
		return Overlapped{Next: o}
	}
	d := r.scan(alarm, r.jump(o, now, 1), now, 1)
	latest := d.Ring[0]
	passed := Overlapped{Skipped: latest.Number - o.Number + 1, Next: d.Next, Last: d.Last, Latest: d.Latest}
	if d.More {
		passed.Skipped, passed.Next = passed.Skipped-1, latest
	}
	if r.spec.Overlap == OverlapQueueOne && passed.Skipped > 0 {
		passed.Ring = o
		passed.Skipped--
	}
	return passed
}
