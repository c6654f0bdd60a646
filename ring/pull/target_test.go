package pull

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// The workers of an application work until restAfter after the last reserve, then they rest, and after linger they are
// forgotten. A further reserve lets them work again. Each change is announced.
func TestWorkersRestAfterTheLastReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changes := 0
		target := New(func() { changes++ })
		defer target.Close()
		reserve := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			target.Reserve(ctx, "shop", 1)
		}
		expect := func(when string, announced int, workingWant, restingWant []string) {
			t.Helper()
			time.Sleep(time.Millisecond)
			working, resting := target.Applications()
			if !slices.Equal(working, workingWant) || !slices.Equal(resting, restingWant) || changes != announced {
				t.Errorf("%s: working %q, resting %q, %d changes, want %q, %q, %d", when, working, resting, changes,
					workingWant, restingWant, announced)
			}
			if accepts := len(workingWant)+len(restingWant) > 0; (target.Accepts("shop") == nil) != accepts {
				t.Errorf("%s: accepts %t", when, !accepts)
			}
		}
		shop := []string{"shop"}
		expect("before the first reserve", 0, nil, nil)
		reserve()
		expect("after a reserve", 1, shop, nil)
		time.Sleep(restAfter - time.Second)
		reserve()
		time.Sleep(restAfter - time.Second)
		expect("between reserves", 1, shop, nil)
		time.Sleep(time.Second)
		expect("after restAfter", 2, nil, shop)
		reserve()
		expect("after a further reserve", 3, shop, nil)
		time.Sleep(restAfter)
		expect("after restAfter again", 4, nil, shop)
		time.Sleep(linger - restAfter)
		expect("after linger", 5, nil, nil)
	})
}

// Reserves that do not read hold at most a quarter of ring.HandedBytes for one application. Meanwhile its ration is 0,
// and another application gets its rings. A report makes room, and is signalled.
func TestUnreadReservesHoldBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New(func() {})
		defer target.Close()
		const each = 1 << 20
		var given []clock.Delivery
		var mu sync.Mutex
		var workers sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		reserve := func(application string) {
			workers.Go(func() {
				if d, ok := target.Reserve(ctx, application, 1); ok {
					mu.Lock()
					given = append(given, d)
					mu.Unlock()
				}
			})
		}
		deliver := func(application string, n int) map[clock.OutcomeKind]int {
			rings := make([]clock.Ring, n)
			for i := range rings {
				rings[i] = clock.Ring{AlarmID: int64(i + 1), Key: clock.Key{Application: application}, Generation: 1,
					RingNo: 1, Payload: make([]byte, each)}
			}
			limits := ring.Limits{WriteBy: time.Now().Add(time.Second), ReplyBy: time.Now().Add(2 * time.Second),
				Await: func(ring.LateRings) {}}
			kinds := map[clock.OutcomeKind]int{}
			for _, o := range target.Lane(1).Deliver(t.Context(), rings, limits) {
				kinds[o.Kind]++
			}
			return kinds
		}
		for range 20 {
			reserve("shop")
		}
		reserve("bank")
		synctest.Wait()
		const most = ring.HandedBytes/4/each - 1 // a ring takes a little beside its payload
		if got := deliver("shop", 20); got[clock.Awaited] != most || got[clock.Untaken] != 20-most {
			t.Errorf("outcomes %v, want %d handed over", got, most)
		}
		if r := target.Ration("shop"); r != 0 {
			t.Errorf("the ration without memory is %d", r)
		}
		if got := deliver("bank", 1); got[clock.Awaited] != 1 {
			t.Errorf("outcomes of another application: %v", got)
		}
		for len(target.Changed()) > 0 {
			<-target.Changed()
		}
		mu.Lock()
		first := given[0]
		mu.Unlock()
		first.Done(1, 1, nil)
		if len(target.Changed()) == 0 || target.Ration("shop") != 20-most {
			t.Errorf("after a report the ration is %d", target.Ration("shop"))
		}
		if got := deliver("shop", 2); got[clock.Awaited] != 1 || got[clock.Untaken] != 1 {
			t.Errorf("outcomes after a report: %v", got)
		}
		leave()
		workers.Wait()
		for _, d := range given[1:] {
			d.Done(0, 0, context.Canceled)
		}
	})
}
