package lease

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// Five changes of subscribers a second cost one write of the node's row a second beside the renewals, and as few looks. The first change
// after a quiet second is written at once.
func TestSubscriberChangesWriteTheRowOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &countedLeases{Leaser: storetest.NewLeases(8)}
		m := join(t, leases, "one", "n1", true)
		time.Sleep(10*time.Second + time.Millisecond) // between two looks: a renewal at this instant would count as a write
		before := leases.attended.Load()
		m.subscribe("first")
		synctest.Wait()
		if n := leases.attended.Load() - before; n != 1 {
			t.Errorf("%d writes at once for the first subscriber", n)
		}
		before, looked := leases.attended.Load(), leases.looked.Load()
		const seconds, events = 20, 5
		for i := range seconds * events {
			m.subscribe(fmt.Sprint("guest-", i))
			time.Sleep(time.Second / events)
		}
		writes, looks := leases.attended.Load()-before, leases.looked.Load()-looked
		t.Logf("%d subscribers: %d writes, %d looks", seconds*events, writes, looks)
		if renewals := int64(seconds * 2); writes > renewals+seconds || looks > 6*seconds {
			t.Errorf("%d writes and %d looks in %d s", writes, looks, seconds)
		}
		m.leave()
	})
}

// countedLeases counts writes of nodes' rows, and looks.
type countedLeases struct {
	store.Leaser
	attended, looked atomic.Int64
}

func (c *countedLeases) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	c.attended.Add(1)
	return c.Leaser.Attend(ctx, n, forget)
}

func (c *countedLeases) Cluster(ctx context.Context) (store.Cluster, error) {
	c.looked.Add(1)
	return c.Leaser.Cluster(ctx)
}
