package httpcall

import (
	"math/rand/v2"
	"net/http"
	"testing"
)

// The bodies that are under way over one client to a host are never larger together than the window, unless there is
// only one.
func TestBodiesOfAConnectionFitItsWindow(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	ts := transports{create: func() Transport { return &http.Transport{} }, bodies: map[string][]int{}}
	var held []passage
	most := 0
	for step := range 20_000 {
		if len(held) > 0 && random.IntN(2) == 0 {
			n := random.IntN(len(held))
			ts.free(held[n])
			held = append(held[:n], held[n+1:]...)
		} else if len(held) < 64 {
			held = append(held, ts.take([]string{"a", "b"}[random.IntN(2)], random.IntN(4)*random.IntN(40_000)))
		}
		type place struct {
			address   string
			transport Transport
		}
		sums, counts := map[place]int{}, map[place]int{}
		for _, p := range held {
			if p.size > 0 {
				counts[place{p.address, p.transport}]++
				sums[place{p.address, p.transport}] += p.size
			}
		}
		for at, sum := range sums {
			if sum > firstWindow && counts[at] > 1 {
				t.Fatalf("seed %d, step %d: %d bodies with %d bytes share a connection", seed, step, counts[at], sum)
			}
		}
		most = max(most, len(ts.all))
	}
	for _, p := range held {
		ts.free(p)
	}
	if len(ts.bodies) > 0 {
		t.Errorf("%v is left", ts.bodies)
	}
	if most < 2 || most > 64 {
		t.Errorf("%d clients", most)
	}
}

// Small bodies share a connection.
func TestSmallBodiesShareAClient(t *testing.T) {
	ts := transports{create: func() Transport { return &http.Transport{} }, bodies: map[string][]int{}}
	for range 1000 {
		ts.take("a", 65)
	}
	if len(ts.all) != 1 {
		t.Errorf("%d clients", len(ts.all))
	}
}
