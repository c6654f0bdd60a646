package ring

import (
	"slices"

	"github.com/clockd/clockd/store"
)

// room is what the entries of one route take up in a share. A route may take all room that the other routes leave. But
// a route with less than its part of a full share gets room: the route with the most entries above its own part yields,
// and keeps its part. So a route whose entries stay, because its target is down or slow, keeps no other route's rows
// out.
type room struct {
	share        *share
	order        *order
	reserved     int     // entries that the other routes leave to the route: an equal part of the share's capacity
	entries      int     // number of the route's entries
	lengths      lengths // the route's queues by length
	due          int     // number of the route's queues in order.due
	latest       entry   // upper bound of the route's entries in pop order; the entry itself may be gone
	refilling    bool    // every application of the route has room; set when the room is half empty, cleared when it is full
	yielded      bool    // the room has yielded since the last pop or withdrawal of its entries
	signalAtHalf bool    // rows are missing: signal the share's loaderWake when the room is half empty
}

// full reports whether the share is full and the route has its part of it, or the room is held back.
func (r *room) full() bool { return r.share.full() && r.entries >= r.reserved || r.heldBack() }

// heldBack reports whether the rows that the room dropped for other routes wait until one of its entries is popped or
// withdrawn. They are due after it, and would only be dropped again for the next rows of the other routes. A room with
// less than its part is not held back.
func (r *room) heldBack() bool { return r.yielded && r.entries >= r.reserved }

// halfEmpty reports whether half of the share is free, or half of the route's part. A room that is held back is not
// half empty.
func (r *room) halfEmpty() bool { return r.untilHalfEmpty() <= 0 && !r.heldBack() }

// untilHalfEmpty returns the number of the route's entries to pop until the room is half empty. It is negative or zero
// if it is so now.
func (r *room) untilHalfEmpty() int {
	return min(len(r.share.index)-r.share.capacity/2, r.entries-r.reserved/2)
}

// roomy reports whether there is room for rows of every application of the route.
func (r *room) roomy() bool { return r.refilling && !r.heldBack() || r.halfEmpty() }

// slack is a number of entries. A queue longer than 2*(other length + 1) + slack gives up its later half whatever the
// due times.
const slack = 8

// longestYieldsTo reports whether the longest queue must make room for a row at a position. The row's application has a
// queue of the given length. If the longest queue has at most one entry more, it does not yield. If it has many more
// (see slack), it yields. In between it yields only if the row is due before its last entry. So the queues of
// applications with about the same backlog end at about the same time, and a page that begins there is useful to all of
// them.
func (r *room) longestYieldsTo(length int, position store.Position) bool {
	switch longest := r.lengths.longest; {
	case longest <= length+1:
		return false
	case longest > 2*(length+1)+slack:
		return true
	default:
		return position.Before(r.lengths.longestQueue().last().position())
	}
}

// emptyBeforeHalf reports whether a queue of the given length may be empty before the room is half empty. Due queues
// are popped by turns, so it compares the queue's length with an equal part of the entries to pop. If all applications
// have about the same backlog, it is false for all queues. Their rows are then read together, so that each page is
// useful to many of them. The factor of 2 leaves time for the read.
func (r *room) emptyBeforeHalf(length int) bool { return (length+1)*r.due <= 2*r.untilHalfEmpty() }

// hasRoomFor reports whether the loader should read an application's missing rows now, although there is no room for
// every application of the route. q is the application's queue, nil if it has none. from is the position of the first
// missing row. Three conditions must hold:
//   - The application's queue is low.
//   - The queue would be empty before the room is half empty.
//   - The room is not full, or the longest queue yields its place.
func (r *room) hasRoomFor(q *queue, from store.Position) bool {
	return q.low() && r.emptyBeforeHalf(q.len()) && (!r.full() || r.longestYieldsTo(q.len(), from))
}

// last returns the latest entry of the route. It looks at all queues only if the entry in r.latest is gone.
func (r *room) last() *entry {
	if e := r.share.entry(r.latest.id); e != nil && *e == r.latest {
		return &r.latest
	}
	var last *entry
	for _, q := range r.share.queues {
		if q.room != r {
			continue
		}
		if e := q.last(); last == nil || last.before(e) {
			last = e
		}
	}
	r.latest = *last
	return &r.latest
}

// yield makes room for other routes. It drops the later half of the longest queue, or of all entries if no queue has
// more than one. It keeps the route's part: otherwise the route could get that room back from the other routes, without
// end.
func (r *room) yield() {
	r.yielded = true
	excess := r.entries - r.reserved
	if r.lengths.longest > 1 {
		q := r.lengths.longestQueue()
		r.dropLast(q, min(laterHalf(q.len()), excess))
		return
	}
	r.dropLastOfAll(min(laterHalf(r.entries), excess))
}

// laterHalf returns the number of entries in the later half of n entries.
func laterHalf(n int) int { return n - n/2 }

// halve drops the later half of a queue.
func (r *room) halve(q *queue) { r.dropLast(q, laterHalf(q.len())) }

// halveAll drops the later half of the route's entries.
func (r *room) halveAll() { r.dropLastOfAll(laterHalf(r.entries)) }

// dropLast drops the latest n entries of a queue.
func (r *room) dropLast(q *queue, n int) {
	for _, e := range q.cut(q.len() - n) {
		r.share.leaveOut(&e)
	}
	r.share.afterRemoval(q)
}

// dropLastOfAll drops the latest n of the route's entries.
func (r *room) dropLastOfAll(n int) {
	all := make([]entry, 0, r.entries)
	for _, q := range r.share.queues {
		if q.room == r {
			all = append(all, q.entries...)
		}
	}
	slices.SortFunc(all, byTime)
	for _, e := range all[len(all)-n:] {
		r.share.leaveOut(&e)
		r.share.remove(e.id)
	}
}
