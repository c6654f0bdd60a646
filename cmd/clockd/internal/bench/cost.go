package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// allocationsTarget is how many allocations a ring may take, of a herd.
const allocationsTarget = 10

// costStep is something to be counted.
type costStep struct {
	what string
	n    int
	do   func(n int) error

	grouped bool // requests at once share transactions
}

// cost counts what sets, cancels and rings take of database, broker and processor. Nothing is timed: what counts costs
// time itself.
func (r *run) cost(ctx context.Context, b *bed) error {
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
		if n, counted := c.of(colTransactions); counted && step.grouped {
			r.add(stageCost, Figure{What: step.what + ", transactions a request", Value: n})
		}
	}
	return r.ringCosts(ctx, b, m)
}

// fewer is how many times fewer requests are sent one at a time.
const fewer = 10

// writeSteps are sets, and the cancels of the same alarms.
func (r *run) writeSteps(ctx context.Context, b *bed) []costStep {
	at := farAhead(b.now())
	steps := []costStep{
		{what: "set, NDJSON", n: r.cfg.Sets, do: func(n int) error { return setLines(ctx, b, "cost", n, at) }},
		{what: "cancel, NDJSON", n: r.cfg.Sets, do: func(n int) error { return cancelLines(ctx, b, "cost", n, at) }},
	}
	for _, sent := range []struct {
		series         series
		n, connections int
		how            string
	}{
		{"many", r.cfg.Singles, singleConns, fmt.Sprintf("%d connections", singleConns)},
		{"one", max(r.cfg.Singles/fewer, 1), 1, "one at a time"},
	} {
		for _, s := range singleSteps(sent.series, at) {
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

// ringCosts counts rings of a herd, and at a constant rate.
func (r *run) ringCosts(ctx context.Context, b *bed, m *meter) error {
	herd, err := r.countHerd(ctx, b, m, countedHerd{
		stage: stageCost, label: "ring, herd", n: r.cfg.Herd, at: func(due int64) func(int) int64 { return func(int) int64 { return due } },
	})
	if err != nil {
		return err
	}
	n := int(float64(r.cfg.Rate) * min(r.cfg.For, bareFor).Seconds())
	steady, err := r.countHerd(ctx, b, m, countedHerd{
		stage: stageCost, label: fmt.Sprintf("ring, %d/s", r.cfg.Rate), n: n, at: func(due int64) func(int) int64 { return evenly(due, r.cfg.Rate) },
	})
	if err != nil {
		return err
	}
	r.addCosts(herd, steady)
	allocations, _ := herd.of(colAllocations)
	r.add(stageCost, Figure{What: herd.What + ", allocations each", Value: allocations}.atMost(allocationsTarget))
	return nil
}

// countedHerd is alarms that are set first, and then counted while they ring.
type countedHerd struct {
	stage string
	label string
	n     int
	at    func(due int64) func(n int) int64 // when each rings, the first when it is due
}

// countHerd counts what the rings take, from when all are set. A herd that was due before that is set again, further ahead.
func (r *run) countHerd(ctx context.Context, b *bed, m *meter, h countedHerd) (c Cost, err error) {
	lead := b.ahead(h.n) + m.late
	for try := range aheadTries {
		r.progress.say("count: %s", h.label)
		due := b.now() + lead.Milliseconds()
		t := newTally(series(fmt.Sprintf("rung%d%d", len(r.report.Rings), try)), h.n, h.at(due), b.offset)
		c, inTime, err := r.countTally(ctx, b, m, h, t, due)
		if inTime || err != nil {
			return c, err
		}
		lead *= 2
	}
	return c, errors.New("alarms cannot be set fast enough to be counted")
}

func (r *run) countTally(ctx context.Context, b *bed, m *meter, h countedHerd, t *tally, due int64) (c Cost, inTime bool, err error) {
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
		rings, err = t.wait(ctx, time.Now().Add(max(left, 0)), patience)
		return err
	})
	if inTime && err == nil {
		r.addRings(b, h.stage, rings)
	}
	return c, inTime, err
}

// setSpread sets the tally's alarms over all nodes.
func setSpread(ctx context.Context, b *bed, t *tally) error {
	nodes := b.running()
	var next atomic.Int64
	return eachShare(ctx, len(t.first), func(ctx context.Context, from, to int) error {
		node := nodes[int(next.Add(1))%len(nodes)]
		return streamLines(ctx, node.url, from, to, http.StatusCreated, func(out []byte, i int) []byte {
			return t.series.appendSet(out, i, t.ringAt(i))
		})
	})
}
