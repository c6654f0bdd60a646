package ring

import (
	"container/heap"
	"slices"
	"unique"

	"github.com/clockd/clockd/clock"
)

// order is the order in which queues are popped from: those with something due by turns, the others wait for their time. The
// queues that one application has in several shares have one turn, and the earliest of their heads is popped.
type order struct {
	now     clock.Instant // of the last advance
	turn    uint64        // of the queue popped from last
	due     line          // those whose head is due at now, by turn and then by time
	waiting line          // the others, by time
	peers   map[unique.Handle[string]]*peers
	spare   []*queue
}

// peers are the queues of one application, one a share.
type peers struct{ queues []*queue }

// maxSpare bounds the queues kept for the next application that needs one.
const maxSpare = 1024

func (o *order) newQueue(s *share, application unique.Handle[string]) *queue {
	q := &queue{}
	if n := len(o.spare); n > 0 {
		q, o.spare = o.spare[n-1], o.spare[:n-1]
	}
	p := o.peers[application]
	if p == nil {
		p = &peers{}
		o.peers[application] = p
	}
	*q = queue{share: s, application: application, entries: q.entries[:0], peers: p}
	for _, peer := range p.queues {
		q.turn = max(q.turn, peer.turn)
	}
	p.queues = append(p.queues, q)
	return q
}

// free takes an empty queue that is filed nowhere.
func (o *order) free(q *queue) {
	p := q.peers
	if p.queues = slices.DeleteFunc(p.queues, func(peer *queue) bool { return peer == q }); len(p.queues) == 0 {
		delete(o.peers, q.application)
	}
	if len(o.spare) < maxSpare && cap(q.entries) <= 64 {
		o.spare = append(o.spare, q)
	}
}

// advance moves the time: what has come due takes its turn.
func (o *order) advance(now clock.Instant) {
	back := now < o.now // the clock was set back
	o.now = now
	if back {
		for _, q := range slices.Clone(o.due.queues) {
			o.file(q)
		}
	}
	for len(o.waiting.queues) > 0 && o.waiting.queues[0].entries[0].at <= now {
		o.file(o.waiting.queues[0])
	}
}

// next returns the queue whose turn it is, the earliest of its application's, and counts that; nil if nothing is due.
func (o *order) next() *queue {
	if len(o.due.queues) == 0 {
		return nil
	}
	q := o.due.queues[0]
	o.turn = q.turn
	for _, p := range q.peers.queues { // of one turn, so that q is the earliest of them
		if p != q { // which is filed when its head is gone
			p.turn = o.turn + 1
			o.file(p)
		}
	}
	q.turn = o.turn + 1
	return q
}

// head returns when there is something to pop.
func (o *order) head() (at clock.Instant, ok bool) {
	switch {
	case len(o.due.queues) > 0:
		return o.due.queues[0].entries[0].at, true
	case len(o.waiting.queues) > 0:
		return o.waiting.queues[0].entries[0].at, true
	}
	return 0, false
}

// file puts q where it belongs by its head, after that, or its turn, has changed. A queue that comes due begins with the
// turn that the others have reached.
func (o *order) file(q *queue) {
	var to *line
	switch {
	case len(q.entries) == 0:
	case q.entries[0].at <= o.now:
		to = &o.due
	default:
		to = &o.waiting
	}
	if to == q.line {
		if to != nil {
			heap.Fix(to, q.spot)
		}
		return
	}
	if q.line != nil {
		heap.Remove(q.line, q.spot)
	}
	if q.line = to; to != nil {
		to.byTurn = to == &o.due
		q.turn = max(q.turn, o.turn)
		heap.Push(to, q)
	}
}

// line is a min-heap of queues.
type line struct {
	byTurn bool // before time
	queues []*queue
}

// Len is for container/heap.
func (l *line) Len() int { return len(l.queues) }

// Less is for container/heap.
func (l *line) Less(i, j int) bool {
	a, b := l.queues[i], l.queues[j]
	if l.byTurn && a.turn != b.turn {
		return a.turn < b.turn
	}
	return a.entries[0].before(&b.entries[0])
}

// Swap is for container/heap.
func (l *line) Swap(i, j int) {
	l.queues[i], l.queues[j] = l.queues[j], l.queues[i]
	l.queues[i].spot, l.queues[j].spot = i, j
}

// Push is for container/heap.
func (l *line) Push(q any) {
	pushed := q.(*queue) //nolint:errcheck // only file pushes
	pushed.spot = len(l.queues)
	l.queues = append(l.queues, pushed)
}

// Pop is for container/heap.
func (l *line) Pop() any {
	last := len(l.queues) - 1
	q := l.queues[last]
	l.queues[last] = nil
	l.queues = l.queues[:last]
	return q
}
