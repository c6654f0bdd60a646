package ring

import (
	"cmp"
	"container/heap"
	"slices"
	"unique"
)

// queue is a min-heap of one application's entries in one share, whose index it keeps.
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
	if len(q.entries) == 0 || q.latest.before(&e) {
		q.latest = e
	}
	at := len(q.entries)
	q.entries = append(q.entries, e)
	q.share.index[e.id] = place{q: q, i: at}
	heap.Fix((*entryHeap)(q), at)
}

// remove takes out the entry at i.
func (q *queue) remove(i int) {
	last := len(q.entries) - 1
	(*entryHeap)(q).Swap(i, last)
	delete(q.share.index, q.entries[last].id)
	q.entries = q.entries[:last]
	if i < last {
		heap.Fix((*entryHeap)(q), i)
	}
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
		delete(q.share.index, dropped[i].id)
	}
	q.entries = q.entries[:keep]
	for i := range q.entries {
		q.share.index[q.entries[i].id] = place{q: q, i: i}
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

// entryHeap is a queue as container/heap sees it. It is never asked to push or pop, which would box the entries.
type entryHeap queue

// Len is for container/heap.
func (h *entryHeap) Len() int { return len(h.entries) }

// Less is for container/heap.
func (h *entryHeap) Less(i, j int) bool { return h.entries[i].before(&h.entries[j]) }

// Swap is for container/heap.
func (h *entryHeap) Swap(i, j int) {
	h.entries[i], h.entries[j] = h.entries[j], h.entries[i]
	index, q := h.share.index, (*queue)(h)
	index[h.entries[i].id], index[h.entries[j].id] = place{q: q, i: i}, place{q: q, i: j}
}

// Push is for container/heap.
func (h *entryHeap) Push(any) { panic("ring: push to entryHeap") }

// Pop is for container/heap.
func (h *entryHeap) Pop() any { panic("ring: pop from entryHeap") }
