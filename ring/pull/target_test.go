package pull

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The workers of an application work until restAfter after the last reserve, then they rest, and after linger they are forgotten. A further reserve
// lets them work again. Each change is announced.
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
				t.Errorf("%s: working %q, resting %q, %d changes, want %q, %q, %d", when, working, resting, changes, workingWant, restingWant, announced)
			}
			if accepts := len(workingWant)+len(restingWant) > 0; target.Accepts("shop") != accepts {
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
