// Package once tells consumers which rings they have handled, by message id. It forgets the oldest ids, so its memory
// is bounded. Copies of a ring that a consumer may still get come soon after the ring: after a lost connection, or a
// node's end.
package once

import "sync"

// State is what a Memory knows of a message id.
type State uint8

// The states.
const (
	New  State = iota // unknown: the caller must handle the ring, then call End
	Busy              // another caller handles the ring now
	Done              // the ring was handled
)

// Memory remembers the last rings that were handled, each with a value. It is safe for concurrent use.
type Memory[T any] struct {
	mu    sync.Mutex
	busy  map[string]struct{}
	done  map[string]T
	order []string // ids in done, as a ring buffer; its length is bounded by size
	next  int      // place in order of the oldest id, when order is full
	size  int
}

// NewMemory returns a memory of size ids, at least 1.
func NewMemory[T any](size int) *Memory[T] {
	return &Memory[T]{busy: map[string]struct{}{}, done: map[string]T{}, size: max(1, size)}
}

// Begin returns the state of a ring, and its value if it is Done. After New the ring is Busy for other callers, until
// End.
func (m *Memory[T]) Begin(id string) (State, T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	value, done := m.done[id]
	if done {
		return Done, value
	}
	if _, busy := m.busy[id]; busy {
		return Busy, value
	}
	m.busy[id] = struct{}{}
	return New, value
}

// End makes the ring Done. It may be called again, to replace the value.
func (m *Memory[T]) End(id string, value T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.busy, id)
	if _, done := m.done[id]; !done {
		m.keep(id)
	}
	m.done[id] = value
}

// keep notes the id as the newest, and forgets the oldest if there are too many.
func (m *Memory[T]) keep(id string) {
	if len(m.order) < m.size {
		m.order = append(m.order, id)
		return
	}
	delete(m.done, m.order[m.next])
	m.order[m.next] = id
	m.next = (m.next + 1) % m.size
}
