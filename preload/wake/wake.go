package wake

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Ownership says which shards this node loads, and which alarms of them it rings.
type Ownership interface {
	// Shards returns the shards that this node loads, sorted. The caller must not change the slice.
	Shards() []int
	// Owned returns the subset of Shards whose lease this node has, sorted. The caller must not change the slice.
	Owned() []int
	// Rings reports whether this node rings the addressee's alarms of a shard in Shards.
	Rings(shard int, to store.Addressee) bool
}

// Time is a lower bound of the database's clock.
type Time interface {
	AtLeast() (clock.Instant, error)
}

// newCounter returns a counter. Wake-ups bring alarms into the heap like loaders, so their metrics have the prefix of
// package preload.
func newCounter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_preload_" + name, Help: help})
}
