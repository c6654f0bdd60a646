package clockhttp

import "sync"

// class is a kind of memory use. The uses of one class share its memory.
type class int

// The classes of memory that requests use.
const (
	smallBodies  class = iota // bodies that fit firstBuffer
	largeBodies               // larger bodies of single requests
	batchBodies               // larger bodies of batches
	streamMemory              // buffers and lines of NDJSON streams
	responses                 // responses that their clients have not taken yet, and events of rings streams
	requests                  // running requests of HTTP/2, until their clients have taken the responses
	classCount
)

// classNames holds the names of the classes in metrics. They are public, so "answers" keeps its name.
var classNames = [classCount]string{"small_bodies", "large_bodies", "batches", "streams", "answers", "requests"}

// budget bounds the memory of requests, in bytes. Each class has a reserved part. The classes share the rest, first
// come, first served.
type budget struct {
	mu        sync.Mutex
	total     int64
	reserved  [classCount]int64
	used      [classCount]int64
	committed int64 // sum of max(reserved, used) over all classes; take keeps it <= total, force may exceed it
}

// newBudget divides the memory that cfg grants. All response memory is reserved for responses, and memory for running
// requests of HTTP/2 is reserved for them. Each connection has a reserved first buffer, so a small body finds memory
// however many clients stall.
func newBudget(cfg Config) *budget {
	small := int64(cfg.Connections) * firstBuffer
	rest, running := cfg.BodyBytes-small, int64(cfg.Connections)*requestBytes/2
	b := &budget{
		total: cfg.BodyBytes + cfg.ResponseBytes + running,
		reserved: [classCount]int64{
			smallBodies: small, largeBodies: rest / 8, batchBodies: rest / 8, streamMemory: rest / 4,
			responses: cfg.ResponseBytes, requests: running,
		},
	}
	for _, share := range b.reserved {
		b.committed += share
	}
	return b
}

// take takes n bytes for the class and returns true, or takes none and returns false. Responses and requests take no
// more than their reserved parts.
func (b *budget) take(c class, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	more := b.committedIncrease(c, n)
	if b.committed+more > b.total || (c == responses || c == requests) && more > 0 {
		return false
	}
	b.used[c] += n
	b.committed += more
	return true
}

// force takes n bytes without a limit, because a committed change must get its response.
func (b *budget) force(c class, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.committed += b.committedIncrease(c, n)
	b.used[c] += n
}

func (b *budget) give(c class, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.committed += b.committedIncrease(c, -n)
	b.used[c] -= n
}

// committedIncrease returns the growth of committed when the class's use grows by n.
func (b *budget) committedIncrease(c class, n int64) int64 {
	return max(b.used[c]+n, b.reserved[c]) - max(b.used[c], b.reserved[c])
}

// inUse returns the bytes that the class uses now.
func (b *budget) inUse(c class) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used[c]
}
