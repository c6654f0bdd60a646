package bench

import (
	"slices"
	"testing"
)

// TestAlarmsAreSetAwayFromTheirOwners: every alarm is set once. Only alarms of the last batch may be set on their
// owner.
func TestAlarmsAreSetAwayFromTheirOwners(t *testing.T) {
	for _, nodes := range []int{1, 2, 4} {
		const n, size = 1000, 50
		owner := func(n int) int { return n % 64 % nodes }
		order := orderAwayFromOwners(n, size, nodes, owner)
		own := 0
		for place, number := range order {
			if owner(number) == place/size%nodes {
				own++
			}
		}
		if most := map[int]int{1: n, 2: 0, 4: size}[nodes]; own > most {
			t.Errorf("%d nodes: %d alarms are set on their owner, want at most %d", nodes, own, most)
		}
		slices.Sort(order)
		for i, number := range order {
			if i != number {
				t.Fatalf("%d nodes: alarm %d is not set once", nodes, i)
			}
		}
	}
}
