package clock

import "errors"

// ErrUnsent is the error for Delivery.Done when no byte of the delivery was written.
var ErrUnsent = errors.New("nothing was written")

// Delivery is a batch of rings for one subscriber of a stream.
type Delivery struct {
	Rings []Ring
	// Late reports whether it is too late to write the rings, because other nodes may have rung or cancelled them. Nil: never.
	Late func() bool
	// Done must be called once: with nil when all rings were written and flushed, with ErrUnsent when no byte was written. Any other
	// error means that some bytes may have been sent; then all the rings are in doubt.
	Done func(err error)
}

// Subscription is one subscriber's share of an application's rings.
type Subscription interface {
	// Deliveries returns a channel that is never closed. Receive from it until the subscriber leaves, then call Close.
	Deliveries() <-chan Delivery
	Close()
}
