package rabbit

import (
	"sync"

	"github.com/clockd/clockd/clock"
)

// confirms holds the broker's confirms for the messages of one delivery on one channel. The reader of the connection
// notes them. The lane waits for them once, not once for each message.
type confirms struct {
	complete chan struct{} // capacity 1; signalled when every published message has a confirm

	mu        sync.Mutex
	first     uint64    // delivery tag of received[0]
	received  []confirm // one for each message, by delivery tag; the memory is reused
	firstOpen int       // index of the first message that may lack a confirm
	count     int       // number of messages with a confirm
	published int       // number of published messages; negative until allPublished sets it
}

// confirm is the broker's word about one message: ack, nack, or none yet.
type confirm uint8

const (
	unconfirmed confirm = iota
	acked
	nacked
)

func newConfirms() *confirms { return &confirms{complete: make(chan struct{}, 1)} }

// expect begins a delivery of at most n messages, whose delivery tags count from first. It forgets earlier deliveries.
func (c *confirms) expect(first uint64, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	drain(c.complete)
	if cap(c.received) < n {
		c.received = make([]confirm, n)
	}
	c.received = c.received[:n]
	clear(c.received)
	c.first, c.firstOpen, c.count, c.published = first, 0, 0, -1
}

// allPublished sets the number of published messages. From now on complete can be signalled.
func (c *confirms) allPublished(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published = n
	c.signalComplete()
}

// note records a confirm for the message with the tag. With multiple it also records it for all earlier messages
// without a confirm. The first confirm of a message counts. A tag that does not belong to this delivery is ignored.
func (c *confirms) note(tag uint64, multiple bool, a confirm) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := tag - c.first // huge if tag is below first
	if i >= uint64(len(c.received)) {
		return
	}
	if !multiple {
		c.set(int(i), a)
	}
	for ; multiple && c.firstOpen <= int(i); c.firstOpen++ {
		c.set(c.firstOpen, a)
	}
	c.signalComplete()
}

func (c *confirms) set(i int, a confirm) {
	if c.received[i] == unconfirmed {
		c.received[i] = a
		c.count++
	}
}

func (c *confirms) signalComplete() {
	if c.published >= 0 && c.count >= c.published {
		clock.Signal(c.complete)
	}
}

// get returns the confirm of the message with the tag, which must belong to this delivery.
func (c *confirms) get(tag uint64) confirm {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received[tag-c.first]
}
