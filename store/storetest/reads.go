package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
)

// wholeList returns a query for all alarms of app.
func wholeList() clock.ListQuery {
	return clock.ListQuery{Application: app, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant,
		Limit: clock.MaxListLimit}
}

// testListEnds ends a list after each alarm in turn. The list yields no further alarm, and its connection serves the
// next list.
func testListEnds(t *testing.T, f *fixture) {
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		f.set(t0, set(id, t0))
	}
	for n := range ids {
		var got []string
		_, err := f.List(t.Context(), wholeList(), func(a *clock.Alarm) bool {
			got = append(got, a.BusinessID)
			return len(got) <= n
		})
		ok(t, err, "a list that ends early")
		same(t, "alarms", got, ids[:n+1])
	}
}

// testListCancelled cancels the context of a list between two alarms.
func testListCancelled(t *testing.T, f *fixture) {
	f.set(t0, sets(names("cut", 300), t0, payload(make([]byte, 10_000)))...) // more than a driver reads ahead
	for range 20 {                                                           // more than there are connections
		ctx, cut := context.WithCancel(t.Context())
		_, err := f.List(ctx, wholeList(), func(*clock.Alarm) bool {
			cut()
			return true
		})
		if !errors.Is(err, clock.ErrUnavailable) || !errors.Is(err, context.Canceled) {
			t.Fatalf("a list whose context has ended: %v", err)
		}
	}
	same(t, "alarms in the end", len(f.list(wholeList())), 300)
}

// testCallsBesideLists fills all places for lists. One more list is refused, and all other calls succeed.
func testCallsBesideLists(t *testing.T, f *fixture) {
	f.set(t0, set("listed", t0))
	const lists = 60 // more than all places and all waiting lists
	release := make(chan struct{})
	releaseLists := sync.OnceFunc(func() { close(release) })
	defer releaseLists()
	var g errgroup.Group
	held, refused := make(chan struct{}, lists), make(chan struct{}, lists)
	for range lists {
		g.Go(func() error {
			_, err := f.List(t.Context(), wholeList(), func(*clock.Alarm) bool {
				held <- struct{}{}
				<-release
				return false
			})
			if e, is := errors.AsType[*clock.Error](err); is && e.Code == clock.CodeOverloaded && e.RetryAfter > 0 {
				refused <- struct{}{}
				return nil
			}
			return err
		})
	}
	for _, c := range []chan struct{}{held, refused} {
		select {
		case <-c:
		case <-time.After(10 * promptTimeout):
			t.Fatal("no list was held, or none refused")
		}
	}
	if n := len(held) + 1; n > 3 {
		t.Errorf("%d lists at once, want at most 3", n)
	}
	calls := f.calls()
	for _, list := range []string{"list", "acts"} {
		delete(calls, list)
	}
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		ctx, stop := context.WithTimeout(t.Context(), 10*promptTimeout)
		if err := calls[name](ctx); err != nil {
			t.Errorf("%s beside lists that wait: %v", name, err)
		}
		stop()
	}
	releaseLists()
	ok(t, g.Wait(), "a list that was held")
}
