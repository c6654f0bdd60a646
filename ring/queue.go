package ring

import (
	"cmp"
	"slices"
	"unique"
)

// queue is a min-heap of one application's entries in one share, whose slots it keeps.
type queue struct {
	share       *share
	application unique.Handle[string]
	entries     []entry
	latest      entry // no entry is after it; one may have gone that was
	limit       int   // half of what there was when something was left out
	waited      bool  // drained is to be signalled at the limit

	line  *line  // of the order: where the queue is filed, nil if nowhere
	spot  int    // in the line
	turn  uint64 // how often its application was popped from, as fairness counts it
	peers *peers // the queues of its application, itself among them
}

// len is 0 for nil: an application without entries has no queue.
func (q *queue) len() int {
	if q == nil {
		return 0
	}
	return len(q.entries)
}

// low reports whether the queue is down to half of what it had when something of it was left out.
func (q *queue) low() bool { return q == nil || len(q.entries) <= q.limit }

func (q *queue) push(e entry) {
	q.share.enter(&e, q)
	if len(q.entries) == 0 || q.latest.before(&e) {
		q.latest = e
	}
	q.entries = append(q.entries, e)
	q.up(len(q.entries) - 1)
}

// remove takes out the entry at i.
func (q *queue) remove(i int) {
	q.share.leave(&q.entries[i])
	last := len(q.entries) - 1
	q.entries[i] = q.entries[last]
	q.entries = q.entries[:last]
	if i < last {
		q.down(i)
		q.up(i)
	}
}

// fanOut is how many entries lie below each in the heap: so many that it is shallow, and they are still next to each other.
const fanOut = 4

// up moves the entry at i towards the head, past those that it comes before.
func (q *queue) up(i int) {
	e := q.entries[i]
	for i > 0 {
		above := (i - 1) / fanOut
		if !e.before(&q.entries[above]) {
			break
		}
		q.put(i, &q.entries[above])
		i = above
	}
	q.put(i, &e)
}

// down moves the entry at i away from the head, past those that come before it.
func (q *queue) down(i int) {
	e := q.entries[i]
	for {
		first := q.firstBelow(i)
		if first < 0 || !q.entries[first].before(&e) {
			break
		}
		q.put(i, &q.entries[first])
		i = first
	}
	q.put(i, &e)
}

// firstBelow returns which of the entries below i comes first, negative where there is none.
func (q *queue) firstBelow(i int) int {
	begin, end := fanOut*i+1, min(fanOut*i+1+fanOut, len(q.entries))
	if begin >= end {
		return -1
	}
	first := begin
	for j := begin + 1; j < end; j++ {
		if q.entries[j].before(&q.entries[first]) {
			first = j
		}
	}
	return first
}

// put has the entry at i.
func (q *queue) put(i int, e *entry) {
	q.entries[i] = *e
	q.share.slots[e.slot].i = i
}

// last returns the latest entry, looking at all of them only where none may have gone that was later.
func (q *queue) last() *entry {
	if e := q.share.entry(q.latest.id); e == nil || *e != q.latest {
		q.latest = slices.MaxFunc(q.entries, byTime)
	}
	return &q.latest
}

// cut drops all but the earliest entries and returns what was dropped, valid until the next push.
func (q *queue) cut(keep int) []entry {
	slices.SortFunc(q.entries, byTime)
	dropped := q.entries[keep:]
	for i := range dropped {
		q.share.leave(&dropped[i])
	}
	q.entries = q.entries[:keep]
	for i := range q.entries {
		q.put(i, &q.entries[i])
	}
	return dropped
}

func compareEntries(a, b *entry) int {
	switch {
	case a.at != b.at:
		return cmp.Compare(a.at, b.at)
	case a.rank != b.rank:
		return cmp.Compare(a.rank, b.rank)
	default:
		return cmp.Compare(a.id, b.id)
	}
}

func byTime(a, b entry) int { return compareEntries(&a, &b) }
