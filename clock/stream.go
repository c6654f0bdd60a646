package clock

import (
	"context"
	"errors"
)

// ErrUnsent is the error for Delivery.Done when no byte of a ring, or of the rings after the written ones, was written.
var ErrUnsent = errors.New("nothing was written")

// Delivery is a batch of rings for one subscriber of a stream.
type Delivery struct {
	Rings []Ring
	// Late reports whether it is too late to write the rings, because other nodes may have rung or cancelled them. Nil: never.
	Late func() bool
	// Context ends when no further byte of the rings may be written, because their alarms may be changed from then on. A write that blocks
	// must end then. Nil: it never ends.
	Context context.Context //nolint:containedctx // it lasts as long as the delivery
	// Done must be called once. written is the number of rings that were written and flushed, from the first on. err is nil if these are all
	// rings, and ErrUnsent if no byte of the others was written. After any other error the others are in doubt.
	Done func(written int, err error)
}

// Subscription is one subscriber's share of an application's rings.
type Subscription interface {
	// Deliveries returns a channel that is never closed. Receive from it until the subscriber leaves, then call Close.
	Deliveries() <-chan Delivery
	Close()
}
