package clockhttp

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

const (
	// ListBytes is the size in bytes of the largest page with more than one alarm. The page ends before the alarm that
	// would exceed it, and its cursor shows that more alarms follow.
	ListBytes = 4 << 20
	// listRead is the most alarms that one statement reads. It is small because the rows after the end of a page are
	// wasted.
	listRead = 100
	// pageTail is the room in bytes for the end of a page, with the longest cursor.
	pageTail = 512
	// firstPage is the least memory of a page in bytes.
	firstPage = 16 << 10
)

// listPage builds the response of a list. Its memory counts until release.
type listPage struct {
	bytes    []byte
	scratch  []byte // JSON of the latest alarm
	memory   *front.Memory
	blockers Blockers
	taken    int64              // bytes taken from memory
	count    int                // alarms on the page
	full     bool               // true: an alarm has not found room
	next     clock.ListPosition // where the list goes on; zero: nowhere
}

// add appends the alarm and returns true. It returns false if the page is full or no memory is left.
func (p *listPage) add(a *clock.Alarm) bool {
	p.scratch = appendBlockedAlarm(p.scratch[:0], a, p.blockers(a))
	size := len(p.bytes) + 1 + len(p.scratch) + pageTail
	if p.count > 0 && size > ListBytes || !p.room(size) {
		p.full = true
		return false
	}
	if p.count > 0 {
		p.bytes = append(p.bytes, ',')
	}
	p.bytes = append(p.bytes, p.scratch...)
	p.count++
	return true
}

// room makes room for size bytes in total. It returns false if the memory does not have them.
func (p *listPage) room(size int) bool {
	if size <= cap(p.bytes) {
		return true
	}
	size = max(size, firstPage, min(2*cap(p.bytes), ListBytes))
	if !p.memory.Take(front.Responses, int64(size)) {
		return false
	}
	larger := make([]byte, len(p.bytes), size)
	copy(larger, p.bytes)
	p.memory.Give(front.Responses, p.taken)
	p.bytes, p.taken = larger, int64(size)
	return true
}

// begin opens the page. It returns false if no memory is left.
func (p *listPage) begin() bool {
	if !p.room(firstPage) {
		return false
	}
	p.bytes = append(p.bytes, `{"alarms":[`...)
	return true
}

// end closes the page of an application, with a cursor if more alarms may follow, and returns it.
func (p *listPage) end(application string) []byte {
	p.scratch = nil
	p.bytes = append(p.bytes, `],"next_cursor":`...)
	if p.next.IsZero() {
		return append(p.bytes, "null}\n"...)
	}
	p.bytes = append(p.bytes, '"')
	p.bytes = append(p.bytes, clock.EncodeCursor(application, p.next)...)
	return append(p.bytes, "\"}\n"...)
}

// release gives the memory back. Call it when the client has taken the page or has left.
func (p *listPage) release() {
	p.memory.Give(front.Responses, p.taken)
	p.bytes, p.taken = nil, 0
}
