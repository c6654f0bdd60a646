package wire

import (
	"sync"

	"github.com/clockd/clockd/clock"
)

// Confirms holds the broker's confirms for the messages of one delivery on one channel. The reader of the connection
// notes them. The lane waits for them once, not once for each message.
type Confirms struct {
	Complete chan struct{} // capacity 1; signalled when every published message has a confirm

	mu        sync.Mutex
	first     uint64    // delivery tag of received[0]
	received  []Confirm // one for each message, by delivery tag; the memory is reused
	firstOpen int       // index of the first message that may lack a confirm
	count     int       // number of messages with a confirm
	published int       // number of published messages; negative until AllPublished sets it
}

// Confirm is the broker's word about one message: ack, nack, or none yet.
type Confirm uint8

// The values of Confirm.
const (
	Unconfirmed Confirm = iota
	Acked
	Nacked
)

func newConfirms() *Confirms { return &Confirms{Complete: make(chan struct{}, 1)} }

// Expect begins a delivery of at most n messages, whose delivery tags count from first. It forgets earlier deliveries.
func (c *Confirms) Expect(first uint64, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	Drain(c.Complete)
	if cap(c.received) < n {
		c.received = make([]Confirm, n)
	}
	c.received = c.received[:n]
	clear(c.received)
	c.first, c.firstOpen, c.count, c.published = first, 0, 0, -1
}

// AllPublished sets the number of published messages. From now on Complete can be signalled.
func (c *Confirms) AllPublished(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.published = n
	c.signalComplete()
}

// note records a confirm for the message with the tag. With multiple it also records it for all earlier messages
// without a confirm. The first confirm of a message counts. A tag that does not belong to this delivery is ignored.
func (c *Confirms) note(tag uint64, multiple bool, a Confirm) {
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

func (c *Confirms) set(i int, a Confirm) {
	if c.received[i] == Unconfirmed {
		c.received[i] = a
		c.count++
	}
}

func (c *Confirms) signalComplete() {
	if c.published >= 0 && c.count >= c.published {
		clock.Signal(c.Complete)
	}
}

// Get returns the confirm of the message with the tag, which must belong to this delivery.
func (c *Confirms) Get(tag uint64) Confirm {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received[tag-c.first]
}

// Drain empties c and reports whether it was not empty.
func Drain[T any](c <-chan T) bool {
	for found := false; ; found = true {
		select {
		case _, open := <-c:
			if !open {
				return found
			}
		default:
			return found
		}
	}
}
