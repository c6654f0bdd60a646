package wake

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/store"
)

// Loader takes rows that other nodes committed.
type Loader interface {
	Take(rows []store.Due)
}

// ReceiverDeps are the dependencies of a Receiver.
type ReceiverDeps struct {
	Ownership  Ownership
	Loader     Loader
	Registerer prometheus.Registerer
}

// Receiver gives the rows of other nodes' wake-ups to the loaders.
type Receiver struct {
	ownership Ownership
	loader    Loader
	received  prometheus.Counter // counts rows
}

// NewReceiver returns a Receiver.
func NewReceiver(deps ReceiverDeps) *Receiver {
	r := &Receiver{
		ownership: deps.Ownership, loader: deps.Loader,
		received: newCounter("wakes_received_total",
			"Alarms due soon that another node announced to this node with a wake-up."),
	}
	deps.Registerer.MustRegister(r.received)
	return r
}

// Receive takes a wake-up. It drops a wake-up of a shard that this node does not load. It returns an error if body is
// not a wake-up. Safe for concurrent use.
func (r *Receiver) Receive(body []byte) error {
	rows, err := decodeWake(body)
	if err != nil {
		return err
	}
	if _, loaded := slices.BinarySearch(r.ownership.Shards(), rows[0].Shard); loaded {
		r.received.Add(float64(len(rows)))
		r.loader.Take(rows)
	}
	return nil
}
