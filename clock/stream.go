package clock

import "context"

// Delivery is a batch of rings for one subscriber of a stream.
type Delivery struct {
	Rings []Ring
	// TooLateToWrite reports whether it is too late to write the rings, because other nodes may have rung or cancelled
	// them. Nil: never.
	TooLateToWrite func() bool
	// Context ends when no further byte of the rings may be written, because their alarms may be changed from then on.
	// A write that blocks must end then. Nil: it never ends.
	Context context.Context //nolint:containedctx // it lasts as long as the delivery
	// Done must be called once. written and begun count rings from the first on: 0 <= written <= begun <= len(Rings).
	// The first written rings were written in whole, and the kernel has them. The rings from written to begun are in
	// doubt. Of the rings from begun on, no byte went to the operating system, and none can go any more: they may ring
	// again. err says why rings were not written; nil if all were.
	Done func(written, begun int, err error)
}

// Flushed is a mark of the bytes that a response has flushed. A flush may end before the kernel has the bytes, and then
// they are lost if the process dies.
type Flushed interface {
	// Written reports whether the kernel has the bytes for certain.
	Written() bool
	// Await returns when the kernel has the bytes for certain, or with the error of ctx. It needs a further flush on
	// the same connection.
	Await(ctx context.Context) error
}

// Subscription is one subscriber's share of an application's rings.
type Subscription interface {
	// Deliveries returns a channel that is never closed. Receive from it until the subscriber leaves, then call Close.
	Deliveries() <-chan Delivery
	Close()
}
