package front

import "sync"

// FirstBuffer is the size in bytes of a body's first buffer. Each connection has memory for one.
const FirstBuffer = 4 << 10

// Class is a kind of memory use. The uses of one class share its memory.
type Class int

// The classes of memory that requests use.
const (
	SmallBodies  Class = iota // bodies that fit FirstBuffer
	LargeBodies               // larger bodies of single requests
	BatchBodies               // larger bodies of batches
	StreamMemory              // buffers and lines of NDJSON streams
	Responses                 // responses that their clients have not taken yet, and events of rings streams
	Requests                  // running requests of HTTP/2, until their clients have taken the responses
	classCount
)

// classNames holds the names of the classes in metrics. They are public, so "answers" keeps its name.
var classNames = [classCount]string{"small_bodies", "large_bodies", "batches", "streams", "answers", "requests"}

// Memory bounds the memory of requests, in bytes. Each class has a reserved part. The classes share the rest, first
// come, first served.
type Memory struct {
	mu        sync.Mutex
	total     int64
	reserved  [classCount]int64
	used      [classCount]int64
	committed int64 // sum of max(reserved, used) over all classes; Take keeps it <= total, Force may exceed it
}

// newMemory divides the memory that cfg grants. All response memory is reserved for responses, and memory for running
// requests of HTTP/2 is reserved for them. Each connection has a reserved first buffer, so a small body finds memory
// however many clients stall.
func newMemory(cfg Config) *Memory {
	small := int64(cfg.Connections) * FirstBuffer
	rest, running := cfg.BodyBytes-small, int64(cfg.Connections)*RequestBytes/2
	m := &Memory{
		total: cfg.BodyBytes + cfg.ResponseBytes + running,
		reserved: [classCount]int64{
			SmallBodies: small, LargeBodies: rest / 8, BatchBodies: rest / 8, StreamMemory: rest / 4,
			Responses: cfg.ResponseBytes, Requests: running,
		},
	}
	for _, share := range m.reserved {
		m.committed += share
	}
	return m
}

// Take takes n bytes for the class and returns true, or takes none and returns false. Responses and requests take no
// more than their reserved parts.
func (m *Memory) Take(c Class, n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	more := m.committedIncrease(c, n)
	if m.committed+more > m.total || (c == Responses || c == Requests) && more > 0 {
		return false
	}
	m.used[c] += n
	m.committed += more
	return true
}

// Force takes n bytes without a limit, because a committed change must get its response.
func (m *Memory) Force(c Class, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.committed += m.committedIncrease(c, n)
	m.used[c] += n
}

// Give gives n bytes of the class back.
func (m *Memory) Give(c Class, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.committed += m.committedIncrease(c, -n)
	m.used[c] -= n
}

// committedIncrease returns the growth of committed when the class's use grows by n.
func (m *Memory) committedIncrease(c Class, n int64) int64 {
	return max(m.used[c]+n, m.reserved[c]) - max(m.used[c], m.reserved[c])
}

// InUse returns the bytes that the class uses now.
func (m *Memory) InUse(c Class) int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used[c]
}
