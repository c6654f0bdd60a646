package targettest

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/httpcall"
)

// Others is a target of package httpcall. Its healthy applications must be served while the receivers of others hang.
type Others struct {
	T        *testing.T
	Target   ring.Target
	Registry *prometheus.Registry // metrics of the target
	InFlight string               // name of the metric of all requests under way
	Overdue  string               // name of the metric of the requests whose reply is overdue
}

// OthersBench is a target whose receivers are behind a Gateway.
type OthersBench struct {
	*Others

	Gateway *Gateway
	// Point gives an application a receiver on a host of the gateway. The receiver may hang, and then has a timeout of
	// a minute.
	Point func(application string, host int, mayHang bool, concurrency int)
	// Rings returns n rings of an application.
	Rings func(application string, n int) []clock.Ring
}

// RunOthers tests that receivers that were prompt, and all hang at once, keep no slot from the others: neither on hosts
// of their own nor on the host that all share.
func RunOthers(t *testing.T, open func(t *testing.T) *OthersBench) {
	t.Helper()
	own, shared := func(i int) int { return i }, func(int) int { return 0 }
	for _, c := range []struct {
		name                     string
		applications, concurrent int
		host                     func(i int) int
		others                   [2]int // hosts of the other applications
	}{
		{"40 applications on hosts of their own", 40, 16, own, [2]int{100, 101}},
		{"four applications on one host", 4, 16, shared, [2]int{100, 101}},
		{"two applications with many requests on one host", 2, 64, shared, [2]int{100, 101}},
		{"four applications on the host of the others", 4, 16, shared, [2]int{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := open(t)
			var hanging []clock.Ring
			for i := range c.applications {
				name := fmt.Sprint("hanging", i)
				b.Point(name, c.host(i), true, c.concurrent)
				b.WantServed(b.Rings(name, 1)...)
				hanging = append(hanging, b.Rings(name, c.concurrent)...)
			}
			b.Point("healthy", c.others[0], false, httpcall.DefaultConcurrency)
			b.WantServed(b.Rings("healthy", 1)...)
			b.Gateway.StartHanging()
			late := b.Begin(hanging...)
			b.AwaitOverdue()
			b.Point("new", c.others[1], false, httpcall.DefaultConcurrency)
			for range 3 {
				b.WantServed(b.Rings("healthy", 16)...)
				b.WantServed(b.Rings("new", 5)...)
			}
			late().End()
		})
	}
}

// deliver delivers rings as a shared batch. late is nil if none is awaited.
func (o *Others) deliver(rings []clock.Ring) (outcomes []clock.Outcome, late ring.LateRings) {
	limits := ample()
	limits.Shared, limits.Await = true, func(l ring.LateRings) { late = l }
	return o.Target.Lane(1).Deliver(o.T.Context(), rings, limits), late
}

// Begin delivers rings to receivers that hang, in the background. The result waits for the end of the delivery, and
// returns the rings that are awaited.
func (o *Others) Begin(hanging ...clock.Ring) func() ring.LateRings {
	ended := make(chan ring.LateRings)
	go func() {
		defer close(ended)
		_, late := o.deliver(hanging)
		select {
		case ended <- late:
		case <-o.T.Context().Done():
		}
	}()
	o.T.Cleanup(func() {
		for range ended { // until the goroutine ends
		}
	})
	return func() ring.LateRings { return <-ended }
}

// AwaitOverdue waits until the reply of each request under way is overdue.
func (o *Others) AwaitOverdue() {
	o.T.Helper()
	eventually(o.T, "the replies of the receivers that hang are overdue", func() bool {
		families, err := o.Registry.Gather()
		if err != nil {
			o.T.Fatal(err)
		}
		values := map[string]float64{}
		for _, f := range families {
			if g := f.GetMetric()[0].GetGauge(); g != nil {
				values[f.GetName()] = g.GetValue()
			}
		}
		return values[o.InFlight] > 0 && values[o.InFlight] == values[o.Overdue]
	})
}

// WantServed delivers rings, which must reach their receiver while others hang.
func (o *Others) WantServed(rings ...clock.Ring) {
	o.T.Helper()
	outcomes, late := o.deliver(rings)
	if late != nil {
		eventually(o.T, "all outcomes are known", func() bool {
			outcomes = late.Outcomes()
			return awaited(outcomes) == 0
		})
	}
	for i, outcome := range outcomes {
		if outcome.Kind != clock.Confirmed {
			o.T.Fatalf("ring %d of %s is %s (%s)", i, rings[i].Application, outcome.Kind, outcome.Reason)
		}
	}
}
