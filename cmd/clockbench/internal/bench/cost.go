package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// allocationsTarget is the largest allowed number of allocations for one ring of a herd.
const allocationsTarget = 10

// costStep is a kind of work whose cost is counted.
type costStep struct {
	what string
	n    int
	do   func(n int) error

	grouped bool // concurrent requests share transactions
}

// cost counts how much sets, cancels and rings use of database, broker and processor. It measures no times, because
// counting takes time itself.
func (r *run) cost(ctx context.Context, b *testbed) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	m, err := r.newMeter(ctx, b, true)
	if err != nil {
		return err
	}
	r.addCosts(costOf("nothing, for a second", 1, m.idle))
	for _, step := range r.writeSteps(ctx, b) {
		r.progress.say("count: %s", step.what)
		c, err := m.measure(ctx, step.what, step.n, func() error { return step.do(step.n) })
		if err != nil {
			return err
		}
		r.addCosts(c)
		if n, counted := c.value(colTransactions); counted && step.grouped {
			r.add(stageCost, Figure{What: step.what + ", transactions a request", Value: n})
		}
	}
	return r.ringCosts(ctx, b, m)
}

// fewer divides the number of requests that are sent one at a time.
const fewer = 10

// writeSteps returns sets, and the cancels of the same alarms.
func (r *run) writeSteps(ctx context.Context, b *testbed) []costStep {
	dueAt := farAhead(b.now())
	steps := []costStep{
		{what: "set, NDJSON", n: r.cfg.Sets, do: func(n int) error { return setLines(ctx, b, "cost", n, dueAt) }},
		{what: "cancel, NDJSON", n: r.cfg.Sets, do: func(n int) error { return cancelLines(ctx, b, "cost", n, dueAt) }},
	}
	for _, sent := range []struct {
		series         series
		n, connections int
		how            string
	}{
		{"many", r.cfg.Singles, singleConns, fmt.Sprintf("%d connections", singleConns)},
		{"one", max(r.cfg.Singles/fewer, 1), 1, "one at a time"},
	} {
		for _, s := range singleSteps(sent.series, dueAt) {
			steps = append(steps, costStep{
				what: s.what + ", " + sent.how, n: sent.n, grouped: sent.connections > 1,
				do: func(n int) error {
					_, _, err := eachRequest(ctx, b.child.url, sent.connections, 0, n, s.do)
					return err
				},
			})
		}
	}
	return steps
}

// ringCosts counts the cost of rings in a herd and at a constant rate.
func (r *run) ringCosts(ctx context.Context, b *testbed, m *meter) error {
	herd, err := r.countHerd(ctx, b, m, countedHerd{
		stage: stageCost, label: "ring, herd", n: r.cfg.Herd,
		dueTimes: func(due int64) func(int) int64 { return func(int) int64 { return due } },
	})
	if err != nil {
		return err
	}
	n := int(float64(r.cfg.Rate) * min(r.cfg.For, bareFor).Seconds())
	steady, err := r.countHerd(ctx, b, m, countedHerd{
		stage: stageCost, label: fmt.Sprintf("ring, %d/s", r.cfg.Rate), n: n,
		dueTimes: func(due int64) func(int) int64 { return evenly(due, r.cfg.Rate) },
	})
	if err != nil {
		return err
	}
	r.addCosts(herd, steady)
	allocations, _ := herd.value(colAllocations)
	r.add(stageCost, Figure{What: herd.What + ", allocations each", Value: allocations}.atMost(allocationsTarget))
	return nil
}

// countedHerd is a series of alarms whose rings are counted. All alarms are set before the counting begins.
type countedHerd struct {
	stage    string
	label    string
	n        int
	dueTimes func(due int64) func(n int) int64 // due time of each alarm; the first alarm is due at due
}

// countHerd counts the cost of the rings, beginning when all alarms are set. If an alarm was due before, it sets
// another series further ahead.
func (r *run) countHerd(ctx context.Context, b *testbed, m *meter, h countedHerd) (c Cost, err error) {
	lead := b.ahead(h.n) + m.syncDelay
	for try := range aheadTries {
		r.progress.say("count: %s", h.label)
		due := b.now() + lead.Milliseconds()
		t := newTally(series(fmt.Sprintf("rung%d%d", len(r.report.Rings), try)), h.n, h.dueTimes(due), b.offset)
		c, inTime, err := r.countTally(ctx, b, m, h, t, due)
		if inTime || err != nil {
			return c, err
		}
		lead *= 2
	}
	return c, errors.New("alarms cannot be set fast enough to be counted")
}

func (r *run) countTally(
	ctx context.Context, b *testbed, m *meter, h countedHerd, t *tally, due int64,
) (c Cost, inTime bool, err error) {
	consumer, err := b.consume(ctx, t)
	if err != nil {
		return c, false, err
	}
	defer func() { err = errors.Join(err, consumer.close()) }()
	if err := setSpread(ctx, b, t); err != nil {
		return c, false, err
	}
	if err := m.settle(ctx); err != nil {
		return c, false, err
	}
	var rings Rings
	c, err = m.measure(ctx, h.label, h.n, func() (err error) {
		left := -b.since(due, time.Now())
		inTime = left > 0
		rings, err = t.wait(ctx, time.Now().Add(max(left, 0)), lostAfter)
		return err
	})
	if inTime && err == nil {
		r.addRings(b, h.stage, rings)
	}
	return c, inTime, err
}

// setSpread sets the tally's alarms, spread over all nodes.
func setSpread(ctx context.Context, b *testbed, t *tally) error {
	nodes := b.running()
	var next atomic.Int64
	return eachShare(ctx, len(t.first), func(ctx context.Context, _, from, to int) error {
		node := nodes[int(next.Add(1))%len(nodes)]
		return streamLines(ctx, node.url, application, from, to, http.StatusCreated, func(out []byte, i int) []byte {
			return t.series.appendSet(out, i, t.ringAt(i))
		})
	})
}
