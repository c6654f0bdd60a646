package bench

import (
	"slices"
	"testing"
)

// TestElsewhere: every alarm is set once, and but for some of the last batch none on its owner.
func TestElsewhere(t *testing.T) {
	for _, nodes := range []int{1, 2, 4} {
		const n, size = 1000, 50
		owner := func(n int) int { return n % 64 % nodes }
		order := elsewhere(n, size, nodes, owner)
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
