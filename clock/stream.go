package clock

// Delivery is a batch of rings for one subscriber of a stream.
type Delivery struct {
	Rings []Ring
	// Done must be called once, with nil when all rings were written and flushed; with an error all of them are in
	// doubt, for some bytes may have gone out.
	Done func(err error)
}

// Subscription is one subscriber's share of an application's rings.
type Subscription interface {
	// Deliveries is never closed; receive from it until the subscriber goes, then Close.
	Deliveries() <-chan Delivery
	Close()
}
