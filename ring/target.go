package ring

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
)

// Target is where rings go: a broker, a stream.
type Target interface {
	// Usable returns nil when rings can be handed over now, else why not. While it is not nil nothing is claimed.
	Usable() error
	// Accepts reports whether rings of the application can be handed over now. While false they are held: no claim, no
	// counted try.
	Accepts(application string) bool
	// Changed returns a channel of capacity 1 that is signalled when what Usable or Accepts answers may have changed.
	Changed() <-chan struct{}
	// Lane returns a new way in for one worker. Lanes are independent of each other.
	Lane() Lane
}

// Lane hands rings over, for one goroutine at a time.
type Lane interface {
	// Open connects, where the lane must and is not connected, so that no delivery has to wait for that. Why it could not
	// is found by the next delivery. It returns when ctx ends at the latest.
	Open(ctx context.Context)
	// Deliver hands over all rings and waits for what becomes of each, at most until limits.Answer. It returns one
	// outcome a ring, in order, and leaves nothing behind that could hand over a ring later: no byte of a ring is
	// written after limits.Write. It never blocks past limits.Answer by more than some milliseconds. When ctx ends it
	// returns early with the outcomes known by then, Unsent where nothing was written and Doubtful otherwise.
	Deliver(ctx context.Context, rings []clock.Ring, limits Limits) []clock.Outcome
	// Close frees what the lane holds. Nothing must be called after it.
	Close() error
}

// Limits bound one delivery, on the monotonic clock. Write lies before Answer.
type Limits struct {
	Write  time.Time // no byte of a ring is written later
	Answer time.Time // what has no answer by then is in doubt
}
