package rabbit

import "sync"

// confirms are the broker's answers to the messages of one delivery. The reader of the connection notes them, the lane
// waits for them: once for all, not once for each.
type confirms struct {
	settled chan struct{} // capacity 1: all that was published is answered

	mu       sync.Mutex
	first    uint64   // delivery tag of answers[0]
	answers  []answer // one a message, by delivery tag; kept for its memory
	low      int      // all before it are answered
	answered int
	awaited  int // how many were published; negative until it is known
}

// answer is what the broker said of one message.
type answer uint8

const (
	unanswered answer = iota
	acked
	nacked
)

func newConfirms() *confirms { return &confirms{settled: make(chan struct{}, 1)} }

// expect begins a delivery of at most n messages, whose delivery tags count from first. What came before is forgotten.
func (c *confirms) expect(first uint64, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	drain(c.settled)
	if cap(c.answers) < n {
		c.answers = make([]answer, n)
	}
	c.answers = c.answers[:n]
	clear(c.answers)
	c.first, c.low, c.answered, c.awaited = first, 0, 0, -1
}

// await says that n messages were published and no more will be, so that settled can be signalled.
func (c *confirms) await(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaited = n
	c.tell()
}

// note takes the broker's answer to the message with the tag; with multiple also to all before it that have none. The
// first answer stands. A tag of no message of this delivery is passed over.
func (c *confirms) note(tag uint64, multiple bool, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := tag - c.first // of a tag below first it is huge
	if i >= uint64(len(c.answers)) {
		return
	}
	if !multiple {
		c.set(int(i), a)
	}
	for ; multiple && c.low <= int(i); c.low++ {
		c.set(c.low, a)
	}
	c.tell()
}

func (c *confirms) set(i int, a answer) {
	if c.answers[i] == unanswered {
		c.answers[i] = a
		c.answered++
	}
}

func (c *confirms) tell() {
	if c.awaited >= 0 && c.answered >= c.awaited {
		signal(c.settled)
	}
}

// of returns what is known of the message with the tag, one of this delivery.
func (c *confirms) of(tag uint64) answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers[tag-c.first]
}
