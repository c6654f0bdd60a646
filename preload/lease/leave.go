package lease

import (
	"context"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// leave gives all leases up and waits until other nodes have taken them, Grace at most. A node that is alone does not
// wait. Meanwhile the node goes on ringing.
func (k *Keeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	if err := k.leaser.Leave(ctx, k.cfg.Incarnation); err != nil {
		k.log.Warn("could not give the leases up: other nodes take them when they expire", "err", err)
		return
	}
	const pause = 100 * time.Millisecond
	for until := time.Now().Add(k.cfg.Grace); time.Now().Before(until); {
		now, err := k.time.AtLeast()
		if err != nil {
			return
		}
		c, err := k.leaser.Cluster(ctx)
		if err != nil {
			return
		}
		alone, taken := handedOver(c, k.cfg.Incarnation, now)
		if alone {
			return
		}
		time.Sleep(pause) // also gives the nodes that took the shards time to begin to load
		if taken {
			return
		}
	}
}

// handedOver reports whether no other node lives, and whether other nodes have all shards.
func handedOver(c store.Cluster, self string, now clock.Instant) (alone, taken bool) {
	taken = !slices.ContainsFunc(c.Leases,
		func(l store.Lease) bool { return l.Incarnation == "" || l.Incarnation == self })
	return len(living(c, self, nil, now)) == 1, taken
}
