package ring

// lengths lists a room's queues by length, so that the longest queue is known without a look at the others.
type lengths struct {
	heads   []*queue // first queue of each length; the list goes on through queue.next and queue.prev
	longest int      // length of the longest queue; 0: no queue
}

// update moves q to the list of its present length. An empty queue is in no list.
func (l *lengths) update(q *queue) {
	n := len(q.entries)
	if n == q.length {
		return
	}
	l.unlink(q)
	if q.length = n; n > 0 {
		l.link(q)
	}
	for l.longest > 0 && l.heads[l.longest] == nil {
		l.longest--
	}
}

func (l *lengths) link(q *queue) {
	for len(l.heads) <= q.length {
		l.heads = append(l.heads, nil)
	}
	if q.next = l.heads[q.length]; q.next != nil {
		q.next.prev = q
	}
	l.heads[q.length] = q
	l.longest = max(l.longest, q.length)
}

func (l *lengths) unlink(q *queue) {
	switch {
	case q.length == 0:
		return
	case q.prev != nil:
		q.prev.next = q.next
	default:
		l.heads[q.length] = q.next
	}
	if q.next != nil {
		q.next.prev = q.prev
	}
	q.prev, q.next = nil, nil
}

// longestQueue returns a queue of the greatest length, nil if there is none.
func (l *lengths) longestQueue() *queue {
	if l.longest == 0 {
		return nil
	}
	return l.heads[l.longest]
}
