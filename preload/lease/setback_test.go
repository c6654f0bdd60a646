package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/store/storetest"
)

// setBack sets the clocks of members back.
func setBack(by time.Duration, members ...*member) {
	for _, m := range members {
		m.time.mu.Lock()
		m.time.back += by
		m.time.mu.Unlock()
	}
}

// The database's clock is set back. Living nodes keep their shares. The shards of a dead node are taken within seconds,
// although its leases last up to an hour more by that clock.
func TestClockSetBackKeepsTheShares(t *testing.T) {
	for _, back := range []time.Duration{10 * time.Second, time.Hour} {
		inCluster(t, func(t *testing.T, leases *storetest.Leases) {
			a, b := joinTwo(t, leases)
			before := epochs(t, leases)
			setBack(back, a, b)
			time.Sleep(10 * time.Second)
			if after := epochs(t, leases); !slices.Equal(before, after) {
				t.Errorf("epochs were %v, are %v", before, after)
			}
			b.link.setCut(true) // it dies
			setBack(back, a, b)
			time.Sleep(4 * time.Second)
			wantShardCounts(t, "b is dead", []int{64}, a)
			b.link.setCut(false)
			time.Sleep(4 * time.Second)
			wantShardCounts(t, "b lives after all", []int{32, 32}, a, b)
			a.leave()
			b.leave()
		})
	}
}
