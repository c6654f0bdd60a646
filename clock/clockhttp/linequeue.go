package clockhttp

import (
	"sync"

	"github.com/clockd/clockd/clock"
)

// lineQueue holds, in order, the lines of a stream that wait for their results. The window's bytes bound its length. An
// empty queue holds no memory. One goroutine pushes and closes, and another goroutine pops.
type lineQueue struct {
	mu     sync.Mutex
	lines  []windowLine
	closed bool
	wake   chan struct{} // capacity 1: signals a new line or the close of the queue
}

func newLineQueue() *lineQueue { return &lineQueue{wake: make(chan struct{}, 1)} }

func (q *lineQueue) push(w windowLine) {
	q.mu.Lock()
	q.lines = append(q.lines, w)
	q.mu.Unlock()
	clock.Signal(q.wake)
}

func (q *lineQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	clock.Signal(q.wake)
}

// pop waits for the next line. ok is false when the queue is closed and empty.
func (q *lineQueue) pop() (w windowLine, ok bool) {
	for {
		q.mu.Lock()
		if len(q.lines) > 0 {
			w = q.lines[0]
			q.lines[0] = windowLine{}
			if q.lines = q.lines[1:]; len(q.lines) == 0 {
				q.lines = nil
			}
			q.mu.Unlock()
			return w, true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return w, false
		}
		<-q.wake
	}
}

func (q *lineQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.lines) == 0
}
