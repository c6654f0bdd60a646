package gcpace

import "testing"

func TestPercentForLeavesRoom(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name        string
		live, roots uint64
		want        int
	}{
		{"nothing yet", 0, 0, 1000},
		{"less than Go collects", 2 * mib, 1 * mib, 1000},
		{"as under load", 8 * mib, 2 * mib, 400},
		{"half the room", 20 * mib, 0, 200},
		{"all of the room", 40 * mib, 0, 100},
		{"more than the room", 400 * mib, 5 * mib, 100},
	} {
		if got := percentFor(c.live, c.roots); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestCollectorStopsTheWorldForGoodReasonOnly(t *testing.T) {
	for _, c := range []struct {
		to, from int
		want     bool
	}{
		{400, 400, false}, {430, 400, false}, {370, 400, false}, {450, 400, true}, {350, 400, true},
		{100, 105, true}, // large garbage must not wait
		{105, 100, false},
	} {
		if got := differs(c.to, c.from, goPercent); got != c.want {
			t.Errorf("from %d to %d: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestLimitIsTwiceOfWhatTheProcessHolds(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, roots uint64
		want        int64
	}{
		{0, 0, 160 * mib}, {79 * mib, mib, 160 * mib}, {200 * mib, 10 * mib, 420 * mib},
	} {
		if got := limitFor(c.live, c.roots); got != c.want {
			t.Errorf("with %d and %d bytes the limit is %d, want %d", c.live, c.roots, got, c.want)
		}
	}
}
