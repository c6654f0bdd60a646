package main

import (
	"sync/atomic"

	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit"
)

// abilities tells which abilities this process lacks now. Only parts that all applications share count: the loaders' reads and the
// connection to the broker. The target of a single application, such as a subscriber of the stream, does not count.
type abilities struct {
	reads  *preload.Reads
	broker bool                      // rings go to RabbitMQ
	loop   atomic.Pointer[ring.Loop] // nil until all parts are made: the loop needs the keeper, and the keeper needs abilities
}

func newAbilities(reads *preload.Reads, broker *rabbit.Session) *abilities {
	return &abilities{reads: reads, broker: broker != nil}
}

// lacks returns the missing abilities, sorted. It does not block.
func (a *abilities) lacks() (lacks []string) {
	if loop := a.loop.Load(); a.broker && loop != nil && loop.CanRing() != nil {
		lacks = append(lacks, lease.AbilityAMQP)
	}
	if a.reads.Failing() {
		lacks = append(lacks, lease.AbilityRead)
	}
	return lacks
}
