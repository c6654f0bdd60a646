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

// Five changes of subscribers a second cost one write of the node's row a second beside the renewals, and as few looks.
// The first change after a quiet second is written at once.
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

// A node that is alone looks when it renews its leases, twice a second. With a second node it looks four times a
// second. It deletes the rows of dead nodes once a minute.
func TestNodeThatIsAloneLooksLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := storetest.NewLeases(8)
		counted := &countedLeases{Leaser: leases}
		m := join(t, counted, "one", "n1", false)
		during := func(d time.Duration) (looks, renewals, forgets int64) {
			looks, renewals, forgets = counted.looked.Load(), counted.attended.Load(), counted.forgot.Load()
			time.Sleep(d)
			return counted.looked.Load() - looks, counted.attended.Load() - renewals, counted.forgot.Load() - forgets
		}
		time.Sleep(time.Second + time.Millisecond)
		if looks, renewals, forgets := during(3 * time.Minute); looks != 360 || renewals != 360 || forgets != 3 {
			t.Errorf("alone for 3 min: %d looks, %d renewals and %d deletions, want 360, 360 and 3", looks, renewals,
				forgets)
		}
		other := join(t, leases, "two", "n2", false)
		time.Sleep(3 * time.Second)
		if looks, renewals, _ := during(20 * time.Second); looks != 80 || renewals != 40 {
			t.Errorf("with another node for 20 s: %d looks and %d renewals, want 80 and 40", looks, renewals)
		}
		if n := len(m.Owned()); n != 4 {
			t.Errorf("the node owns %d of 8 shards beside another node", n)
		}
		other.leave()
		time.Sleep(3 * time.Second)
		if looks, _, _ := during(20 * time.Second); looks != 40 || len(m.Owned()) != 8 {
			t.Errorf("alone again for 20 s: %d looks, %d of 8 shards", looks, len(m.Owned()))
		}
		m.leave()
	})
}

// A deletion of dead nodes' rows that fails costs one look, and not the looks after it.
func TestFailedDeletionOfDeadNodesStopsNoLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := &countedLeases{Leaser: storetest.NewLeases(8), failForget: true}
		m := join(t, counted, "one", "n1", false)
		time.Sleep(10 * time.Second)
		if n := len(m.Owned()); n != 8 {
			t.Errorf("the node owns %d of 8 shards", n)
		}
		if looks := counted.looked.Load(); looks < 18 {
			t.Errorf("%d looks in 10 s", looks)
		}
		m.leave()
	})
}

// A look that a subscriber causes delays no renewal of a node that is alone.
func TestSubscriberDelaysNoRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted := &countedLeases{Leaser: storetest.NewLeases(8)}
		m := join(t, counted, "one", "n1", true)
		time.Sleep(10*time.Second + 490*time.Millisecond) // 10 ms before a renewal
		m.subscribe()                                     // wakes the keeper, although nothing changed
		before := counted.attended.Load()
		time.Sleep(20 * time.Millisecond)
		if n := counted.attended.Load() - before; n != 1 {
			t.Errorf("%d renewals when the next one was due", n)
		}
		m.leave()
	})
}

// countedLeases counts writes of nodes' rows, looks, and writes that delete rows of dead nodes.
type countedLeases struct {
	store.Leaser
	attended, looked, forgot atomic.Int64
	failForget               bool // writes that delete rows fail
}

func (c *countedLeases) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	c.attended.Add(1)
	if forget > 0 {
		c.forgot.Add(1)
		if c.failForget {
			return errCut
		}
	}
	return c.Leaser.Attend(ctx, n, forget)
}

func (c *countedLeases) Cluster(ctx context.Context) (store.Cluster, error) {
	c.looked.Add(1)
	return c.Leaser.Cluster(ctx)
}
