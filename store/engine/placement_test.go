package engine

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

func TestSplitDividesByPlacement(t *testing.T) {
	p := newPlacements([][]int{{0, 3}, {1}, {2}}, 4)
	parts := p.split(6, func(i int) int { return p.ofID(int64(4*i + []int{0, 2, 3, 0, 2, 2}[i])) })
	if len(parts) != 2 || parts[0].placement != 0 || parts[1].placement != 2 {
		t.Fatalf("parts %v", parts)
	}
	if !slices.Equal(parts[0].indexes, []int{0, 2, 3}) || !slices.Equal(parts[1].indexes, []int{1, 4, 5}) {
		t.Errorf("parts %v", parts)
	}
	if got := parts[0].share(100, 6); got != 50 {
		t.Errorf("the share of half of the elements is %d, want 50", got)
	}
	if got := parts[0].share(1, 6); got != 1 {
		t.Errorf("the share of a small limit is %d, want 1", got)
	}
	if got := parts[0].share(0, 6); got != 0 {
		t.Errorf("the share of no limit is %d, want 0", got)
	}
	if one := p.split(2, func(int) int { return 1 }); len(one) != 1 || one[0].placement != 1 || one[0].indexes != nil {
		t.Errorf("elements of one placement are divided: %v", one)
	}
	var whole placements
	if one := whole.split(2, nil); len(one) != 1 || one[0].indexes != nil {
		t.Errorf("a database of one server is divided: %v", one)
	}
}

func TestPartedClaimEndsEachClaimOnce(t *testing.T) {
	p := &partedClaim{claims: make([]*claim, 3), claimOf: []int{2, 0, 2}, settled: make([]bool, 3)}
	var mu sync.Mutex
	var ended []int
	run := func(fail ...int) (claims []int, err error) {
		ended = nil
		err = p.end(func(i int) error {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, i)
			if slices.Contains(fail, i) {
				return clock.Unavailable(errors.New("the server is away"))
			}
			return nil
		})
		slices.Sort(ended)
		return ended, err
	}
	if claims, err := run(0, 2); !slices.Equal(claims, []int{0, 2}) || !errors.Is(err, clock.ErrUnavailable) ||
		errors.Is(err, clock.ErrUnconfirmed) {
		t.Errorf("all fail: claims %v, %v", claims, err)
	}
	if claims, err := run(2); !slices.Equal(claims, []int{0, 2}) || !errors.Is(err, clock.ErrUnconfirmed) {
		t.Errorf("one fails: claims %v, %v", claims, err)
	}
	if claims, err := run(); !slices.Equal(claims, []int{2}) || err != nil {
		t.Errorf("repeated: claims %v, %v", claims, err)
	}
	if claims, err := run(); !slices.Equal(claims, []int{0, 2}) || err != nil {
		t.Errorf("the next settlement: claims %v, %v", claims, err)
	}
}

func TestMergedClaimHasTheListsOfAllPlacements(t *testing.T) {
	claims := make([]*claim, 2)
	for i := range claims {
		id := int64(i)
		claims[i] = &claim{
			ended: []store.EndedAlarm{{ID: id}}, deferred: []int64{id}, atMostOnce: []int64{id},
			elsewhere: []store.Elsewhere{{ID: id}},
			moved:     []store.Due{{ID: id}},
		}
	}
	c := mergeClaims(claims)
	for name, n := range map[string]int{
		"ended": len(c.Ended), "deferred": len(c.Deferred), "at most once": len(c.AtMostOnce),
		"elsewhere": len(c.Elsewhere), "moved": len(c.Moved),
	} {
		if n != 2 {
			t.Errorf("%s: %d of 2 alarms", name, n)
		}
	}
	if c.Settler != nil {
		t.Error("a claim without rings has a settler")
	}
}
