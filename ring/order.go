package ring

import (
	"container/heap"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// orders holds one order per route. The entries of one route are popped without a look at the entries of the others.
type orders struct {
	byRoute    []order
	suspended  map[addressee]struct{}       // addressees whose entries are not popped
	routeIndex func(to store.Addressee) int // index of the addressee's route; not called with one route
}

func newOrders(routes int, routeIndex func(to store.Addressee) int) orders {
	o := orders{byRoute: make([]order, routes), routeIndex: routeIndex, suspended: map[addressee]struct{}{}}
	for i := range o.byRoute {
		o.byRoute[i].addressees, o.byRoute[i].suspended = map[addressee]*addresseeQueues{}, o.suspended
	}
	return o
}

// suspend keeps the application's entries from being popped until resume.
func (o *orders) suspend(to addressee) {
	o.suspended[to] = struct{}{}
	o.update(to)
}

// resume ends suspend.
func (o *orders) resume(to addressee) {
	delete(o.suspended, to)
	o.update(to)
}

// update moves the application's queues to their places.
func (o *orders) update(to addressee) {
	for i := range o.byRoute {
		if all := o.byRoute[i].addressees[to]; all != nil {
			for _, q := range all.queues {
				o.byRoute[i].update(q)
			}
		}
	}
}

// indexOf returns the index of the application's route.
func (o *orders) indexOf(to addressee) int {
	if len(o.byRoute) == 1 {
		return 0
	}
	return o.routeIndex(to.Value())
}

// headTime is the time of an order's head; ok is false without entries.
type headTime struct {
	at clock.Instant
	ok bool
}

// heads returns the head of each order, in dst.
func (o *orders) heads(dst []headTime) []headTime {
	dst = dst[:0]
	for i := range o.byRoute {
		at, ok := o.byRoute[i].head()
		dst = append(dst, headTime{at, ok})
	}
	return dst
}

// anyEarlier reports whether the head of an order is earlier than it was.
func (o *orders) anyEarlier(was []headTime) bool {
	for i := range o.byRoute {
		if at, ok := o.byRoute[i].head(); ok && (!was[i].ok || at < was[i].at) {
			return true
		}
	}
	return false
}

// order decides from which queue of one route the next entry is popped. Queues with a due head take turns; the other
// queues wait for their time. One application may have a queue in several shares. They share one turn, and the earliest
// of their heads is popped.
type order struct {
	now        clock.Instant // time of the last advance
	turn       uint64        // turn of the last popped queue
	due        queueHeap     // queues whose head is due at now, by turn and then by time
	waiting    queueHeap     // all other queues but suspended ones, by the time of their head
	addressees map[addressee]*addresseeQueues
	suspended  map[addressee]struct{} // orders.suspended
	spare      []*queue               // empty queues for reuse, at most maxSpare
}

// addresseeQueues holds the queues of one application, at most one per share.
type addresseeQueues struct{ queues []*queue }

// maxSpare bounds the empty queues that are kept for reuse.
const maxSpare = 1024

func (o *order) newQueue(r *room, to addressee) *queue {
	q := &queue{}
	if n := len(o.spare); n > 0 {
		q, o.spare = o.spare[n-1], o.spare[:n-1]
	}
	siblings := o.addressees[to]
	if siblings == nil {
		siblings = &addresseeQueues{}
		o.addressees[to] = siblings
	}
	*q = queue{room: r, addressee: to, entries: q.entries[:0], siblings: siblings}
	for _, sibling := range siblings.queues {
		q.turn = max(q.turn, sibling.turn)
	}
	siblings.queues = append(siblings.queues, q)
	return q
}

// release takes back an empty queue that is in neither heap.
func (o *order) release(q *queue) {
	siblings := q.siblings
	if siblings.queues = slices.DeleteFunc(siblings.queues, func(sibling *queue) bool { return sibling == q }); len(siblings.queues) == 0 {
		delete(o.addressees, q.addressee)
	}
	if len(o.spare) < maxSpare && cap(q.entries) <= 64 {
		o.spare = append(o.spare, q)
	}
}

// advance sets the time. Queues whose head has become due begin to take turns.
func (o *order) advance(now clock.Instant) {
	clockSetBack := now < o.now // the clock was set back
	o.now = now
	if clockSetBack {
		for _, q := range slices.Clone(o.due.queues) {
			o.update(q)
		}
	}
	for len(o.waiting.queues) > 0 && o.waiting.queues[0].entries[0].popAt <= now {
		o.update(o.waiting.queues[0])
	}
}

// next returns the queue whose turn it is, and counts the turn. Among an application's queues, this is the queue with
// the earliest head. It returns nil if no entry is due.
func (o *order) next() *queue {
	if len(o.due.queues) == 0 {
		return nil
	}
	q := o.due.queues[0]
	o.turn = q.turn
	for _, sibling := range q.siblings.queues { // their turns are equal, so q has the earliest head of them
		if sibling != q { // removing its head updates q
			sibling.turn = o.turn + 1
			o.update(sibling)
		}
	}
	q.turn = o.turn + 1
	return q
}

// head returns the time at which the next entry may be popped; it may be past. ok is false without entries.
func (o *order) head() (at clock.Instant, ok bool) {
	switch {
	case len(o.due.queues) > 0:
		return o.due.queues[0].entries[0].popAt, true
	case len(o.waiting.queues) > 0:
		return o.waiting.queues[0].entries[0].popAt, true
	}
	return 0, false
}

// update moves q to the heap and position of its head and turn, after either has changed. A queue that becomes due
// begins with the turn that the other queues have reached.
func (o *order) update(q *queue) {
	var target *queueHeap
	switch {
	case len(q.entries) == 0, o.isSuspended(q.addressee):
	case q.entries[0].popAt <= o.now:
		target = &o.due
	default:
		target = &o.waiting
	}
	if target == q.inHeap {
		if target != nil {
			heap.Fix(target, q.heapIndex)
		}
		return
	}
	switch &o.due {
	case q.inHeap:
		q.room.due--
	case target:
		q.room.due++
	}
	if q.inHeap != nil {
		heap.Remove(q.inHeap, q.heapIndex)
	}
	if q.inHeap = target; target != nil {
		target.byTurn = target == &o.due
		q.turn = max(q.turn, o.turn)
		heap.Push(target, q)
	}
}

func (o *order) isSuspended(to addressee) bool {
	if len(o.suspended) == 0 {
		return false
	}
	_, is := o.suspended[to]
	return is
}

// queueHeap is a min-heap of queues. None of them is empty.
type queueHeap struct {
	byTurn bool // order by turn first, then by the head; false: by the head alone
	queues []*queue
}

// Len is for container/heap.
func (l *queueHeap) Len() int { return len(l.queues) }

// Less is for container/heap.
func (l *queueHeap) Less(i, j int) bool {
	a, b := l.queues[i], l.queues[j]
	if l.byTurn && a.turn != b.turn {
		return a.turn < b.turn
	}
	return a.entries[0].before(&b.entries[0])
}

// Swap is for container/heap.
func (l *queueHeap) Swap(i, j int) {
	l.queues[i], l.queues[j] = l.queues[j], l.queues[i]
	l.queues[i].heapIndex, l.queues[j].heapIndex = i, j
}

// Push is for container/heap.
func (l *queueHeap) Push(q any) {
	pushed := q.(*queue) //nolint:errcheck // only update pushes
	pushed.heapIndex = len(l.queues)
	l.queues = append(l.queues, pushed)
}

// Pop is for container/heap.
func (l *queueHeap) Pop() any {
	last := len(l.queues) - 1
	q := l.queues[last]
	l.queues[last] = nil
	l.queues = l.queues[:last]
	return q
}
