package ring

import (
	"testing"

	"pgregory.net/rapid"
)

// Whatever the other routes have taken, a route without a batch has a worker. All routes together have at most as many
// batches as there are workers, and a lone route takes all but one for each other route.
func TestEachRouteHasWorkerOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := rapid.IntRange(1, 5).Draw(t, "routes")
		workers := rapid.IntRange(routes, 8).Draw(t, "workers")
		cs := crews{workers: workers}
		for i := range routes {
			cs.all = append(cs.all, &crew{index: i, free: workers - routes + 1})
		}
		cs.turns = append(cs.turns, cs.all...)
		var busy int
		handOut := func(c *crew) bool {
			if !cs.hasWorker(c) {
				return false
			}
			c.free--
			c.busy++
			busy++
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"one": func(t *rapid.T) { handOut(rapid.SampledFrom(cs.all).Draw(t, "crew")) },
			"all of one": func(t *rapid.T) {
				c := rapid.SampledFrom(cs.all).Draw(t, "crew")
				cs.byTurns(func(other *crew) bool { return other == c && handOut(c) })
				if busy == c.busy && c.busy != workers-routes+1 {
					t.Fatalf("a lone route has %d of %d workers, %d routes", c.busy, workers, routes)
				}
			},
			"all": func(*rapid.T) { cs.byTurns(handOut) },
			"complete": func(t *rapid.T) {
				if c := rapid.SampledFrom(cs.all).Draw(t, "crew"); c.busy > 0 {
					c.free++
					c.busy--
					busy--
				}
			},
			"": func(t *rapid.T) {
				if busy > workers {
					t.Fatalf("%d batches of %d workers", busy, workers)
				}
				for _, c := range cs.all {
					if c.busy == 0 && !cs.hasWorker(c) {
						t.Fatalf("route %d of %d has no batch and no worker; %d batches of %d workers", c.index, routes,
							busy, workers)
					}
				}
			},
		})
	})
}
