package ring

import (
	"cmp"
	"slices"
)

// queue is a min-heap of one application's entries in one share. It keeps the share's slots up to date.
type queue struct {
	room          *room // room of the application's route
	addressee     addressee
	entries       []entry
	latest        entry // upper bound of the entries in pop order; the entry itself may be gone
	lowMark       int   // number of entries at which the queue is low: half of its length when a row was left out
	signalWhenLow bool  // add a recheck when the queue is low

	length     int    // number of entries under which room.lengths lists the queue
	prev, next *queue // neighbours in the list of queues of the same length

	inHeap    *queueHeap       // order.due or order.waiting; nil: in neither, because it is empty or suspended
	heapIndex int              // index in inHeap
	turn      uint64           // turns that the application has had, as fairness counts them
	siblings  *addresseeQueues // all queues of the application, this one included
}

// len returns the number of entries. It is 0 for nil, because an application without entries has no queue.
func (q *queue) len() int {
	if q == nil {
		return 0
	}
	return len(q.entries)
}

// low reports whether the queue has fallen to half of its length at the time when a row was left out.
func (q *queue) low() bool { return q == nil || len(q.entries) <= q.lowMark }

func (q *queue) push(e entry) {
	q.room.share.takeSlot(&e, q)
	if len(q.entries) == 0 || q.latest.before(&e) {
		q.latest = e
	}
	q.entries = append(q.entries, e)
	q.up(len(q.entries) - 1)
}

// remove takes out the entry at index i.
func (q *queue) remove(i int) {
	q.room.share.freeSlot(&q.entries[i], q)
	last := len(q.entries) - 1
	q.entries[i] = q.entries[last]
	q.entries = q.entries[:last]
	if i < last {
		q.down(i)
		q.up(i)
	}
}

// fanOut is the number of children of each entry in the heap. It makes the heap shallow, and the children are
// neighbours in memory.
const fanOut = 4

// up moves the entry at index i towards the head, past later entries.
func (q *queue) up(i int) {
	e := q.entries[i]
	for i > 0 {
		above := (i - 1) / fanOut
		if !e.before(&q.entries[above]) {
			break
		}
		q.putAt(i, &q.entries[above])
		i = above
	}
	q.putAt(i, &e)
}

// down moves the entry at index i away from the head, past earlier entries.
func (q *queue) down(i int) {
	e := q.entries[i]
	for {
		first := q.firstBelow(i)
		if first < 0 || !q.entries[first].before(&e) {
			break
		}
		q.putAt(i, &q.entries[first])
		i = first
	}
	q.putAt(i, &e)
}

// firstBelow returns the index of the earliest child of the entry at index i, or a negative number if it has no child.
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

// putAt stores the entry at index i and updates its slot.
func (q *queue) putAt(i int, e *entry) {
	q.entries[i] = *e
	q.room.share.slots[e.slot].index = i
}

// last returns the latest entry. It looks at all entries only if the entry in q.latest is gone.
func (q *queue) last() *entry {
	if e := q.room.share.entry(q.latest.id); e == nil || *e != q.latest {
		q.latest = slices.MaxFunc(q.entries, byTime)
	}
	return &q.latest
}

// cut keeps the earliest entries, that many, and returns the others. The returned slice is valid until the next push.
func (q *queue) cut(keep int) []entry {
	slices.SortFunc(q.entries, byTime)
	dropped := q.entries[keep:]
	for i := range dropped {
		q.room.share.freeSlot(&dropped[i], q)
	}
	q.entries = q.entries[:keep]
	for i := range q.entries {
		q.putAt(i, &q.entries[i])
	}
	return dropped
}

func compareEntries(a, b *entry) int {
	switch {
	case a.popAt != b.popAt:
		return cmp.Compare(a.popAt, b.popAt)
	case a.order != b.order:
		return cmp.Compare(a.order, b.order)
	default:
		return cmp.Compare(a.id, b.id)
	}
}

func byTime(a, b entry) int { return compareEntries(&a, &b) }
