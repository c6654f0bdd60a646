package bench

import (
	"slices"
	"testing"
)

func TestEvenSharesDifferByAtMostOneShard(t *testing.T) {
	for _, test := range []struct {
		owned []int
		nodes int
		want  bool
	}{
		{[]int{64}, 1, true}, {[]int{32, 32}, 2, true}, {[]int{21, 22, 21}, 3, true},
		{nil, 1, false}, {[]int{64}, 2, false}, {[]int{64, 0}, 2, false}, {[]int{33, 31}, 2, false},
		{[]int{32, 31}, 2, false},
		{[]int{21, 21, 21}, 3, false}, {[]int{32, 32}, 1, false}, {slices.Repeat([]int{1}, shards), shards + 1, false},
	} {
		if got := even(test.owned, test.nodes); got != test.want {
			t.Errorf("%v of %d nodes: %t", test.owned, test.nodes, got)
		}
	}
}
