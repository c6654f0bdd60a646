package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// nodeCounts are the numbers of nodes that share one database and exchange. The others are compared with the first.
var nodeCounts = []int{1, 2, 4}

// Targets of several nodes.
const (
	nodesWork   = 1.1 // times the database work for an alarm with one node
	nodesP99    = 10  // milliseconds
	nodesUneven = 1   // difference between the largest and the smallest number of shards of a node
)

// soonAhead is how long before its due time an alarm is set on a node that does not own its shard.
const soonAhead = time.Second

func nodesText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// nodesResult holds the results for one number of nodes.
type nodesResult struct {
	count        int
	herd, steady Cost
	late         spread
	uneven       int
}

// nodes measures how much work several nodes cause for one database, and whether they ring as fast as one node.
func (r *run) nodes(ctx context.Context) error {
	var alone *nodesResult
	for _, count := range nodeCounts {
		result := &nodesResult{count: count}
		measure := func(ctx context.Context, b *testbed) error { return r.measureNodes(ctx, b, result) }
		if err := r.inCountedTestbed(measure)(ctx); err != nil {
			return fmt.Errorf("%d nodes: %w", count, err)
		}
		r.addCosts(result.herd, result.steady)
		if alone == nil {
			alone = result
		}
		r.addNodes(result, alone)
	}
	return nil
}

func (r *run) measureNodes(ctx context.Context, b *testbed, result *nodesResult) error {
	for len(b.nodes) < result.count {
		if _, err := b.startNode(ctx, fmt.Sprintf("%s%d", firstNode, len(b.nodes))); err != nil {
			return err
		}
	}
	if err := b.waitShares(ctx, result.count); err != nil {
		return err
	}
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	m, err := r.newMeter(ctx, b, false)
	if err != nil {
		return err
	}
	label := nodesText(result.count)
	result.herd, err = r.countHerd(ctx, b, m, countedHerd{
		stage: stageNodes, label: label + ", herd", n: max(r.cfg.Herd/2, 1),
		dueTimes: func(due int64) func(int) int64 { return func(int) int64 { return due } },
	})
	if err != nil {
		return err
	}
	result.steady, result.late, err = r.countSteady(ctx, b, m, fmt.Sprintf("%s, set and ring, %d/s", label, r.cfg.Rate))
	if err != nil {
		return err
	}
	owned, err := shares(ctx, b.child.url)
	if err == nil {
		result.uneven = slices.Max(owned) - slices.Min(owned)
	}
	return err
}

// addNodes adds the figures of several nodes, with the figures of one node as their ceilings.
func (r *run) addNodes(n, alone *nodesResult) {
	beside, label := nodesText(alone.count), nodesText(n.count)
	p50 := Figure{What: label + ", lateness, p50", Unit: millis, Value: ms(n.late.P50)}
	p99 := Figure{What: label + ", lateness, p99", Unit: millis, Value: ms(n.late.P99)}.atMost(nodesP99)
	if n == alone {
		r.add(stageNodes, p50, p99)
		return
	}
	r.add(stageNodes, p50.beside(beside, ms(alone.late.P50)), p99.beside(beside, ms(alone.late.P99)),
		Figure{What: label + ", shards: most less fewest",
			Value: float64(n.uneven)}.judged(fmt.Sprintf("<= %d", nodesUneven), n.uneven <= nodesUneven))
	for _, work := range []struct{ several, one Cost }{{n.herd, alone.herd}, {n.steady, alone.steady}} {
		for _, c := range []column{colStatements, colTransactions, colLogBytes} {
			value, counted := work.several.value(c)
			one, _ := work.one.value(c)
			if counted {
				r.add(stageNodes,
					Figure{What: work.several.What + ", " + columnText(c), Value: value}.beside(beside,
						one).ratioAtMost(nodesWork))
			}
		}
	}
}

// countSteady counts the cost of alarms that are set and ring at a constant rate, and returns their lateness. Each
// alarm is set on a node that does not own its shard.
func (r *run) countSteady(ctx context.Context, b *testbed, m *meter, label string) (c Cost, late spread, err error) {
	n, size := int(float64(r.cfg.Rate)*min(r.cfg.For, bareFor).Seconds()), max(r.cfg.Rate/setsASecond, 1)
	owners, err := b.owners(ctx)
	if err != nil {
		return c, late, err
	}
	const soon = series("soon")
	order := orderAwayFromOwners(n, size, len(b.nodes), func(n int) int {
		return owners[clock.Key{Application: application, BusinessID: soon.id(n)}.Shard(len(owners))]
	})
	due := evenly(b.now()+(r.cfg.ahead+soonAhead).Milliseconds(), r.cfg.Rate)
	at := make([]int64, n)
	for place, number := range order {
		at[number] = due(place)
	}
	t := newTally(soon, n, func(n int) int64 { return at[n] }, b.offset)
	consumer, err := b.consume(ctx, t)
	if err != nil {
		return c, late, err
	}
	defer func() { err = errors.Join(err, consumer.close()) }()
	r.progress.say("count: %s", label)
	var rings Rings
	c, err = m.measure(ctx, label, n, func() (err error) {
		if err := setAwayFromOwners(ctx, b, t, order, size); err != nil {
			return err
		}
		rings, err = t.wait(ctx, time.Now().Add(soonAhead), lostAfter)
		return err
	})
	if err != nil {
		return c, late, err
	}
	r.addRings(b, stageNodes, rings)
	return c, t.lateness(), nil
}

// orderAwayFromOwners orders alarms 0..n-1. Batch i is set on node i modulo nodes, and that node owns no alarm of the
// batch. A few of the last alarms may be exceptions.
func orderAwayFromOwners(n, size, nodes int, owner func(n int) int) []int {
	owned := make([][]int, nodes)
	for i := range n {
		node := owner(i)
		owned[node] = append(owned[node], i)
	}
	order := make([]int, 0, n)
	for place := range n {
		setOn := place / size % nodes
		from := setOn
		for node := range owned { // find the node with the most alarms left
			if node != setOn && len(owned[node]) > 0 && (from == setOn || len(owned[node]) > len(owned[from])) {
				from = node
			}
		}
		order = append(order, owned[from][0])
		owned[from] = owned[from][1:]
	}
	return order
}

// setAwayFromOwners sets the alarms in this order, a batch on each node in turn. A batch is set at soonAhead before its
// first alarm is due.
func setAwayFromOwners(ctx context.Context, b *testbed, t *tally, order []int, size int) error {
	var conns []*arrays
	defer func() {
		for _, c := range conns {
			c.close()
		}
	}()
	for _, node := range b.nodes {
		c, err := dialHTTP(ctx, node.url)
		if err != nil {
			return err
		}
		conns = append(conns, &arrays{httpConn: c, series: t.series})
	}
	for i, batch := range slices.Collect(slices.Chunk(order, size)) {
		ahead := -b.since(t.ringAt(batch[0]), time.Now())
		if err := sleep(ctx, ahead-soonAhead); err != nil {
			return err
		}
		if err := conns[i%len(conns)].setThese(batch, t.ringAt); err != nil {
			return err
		}
	}
	return nil
}

// owners returns the owner of each shard, as an index of testbed.nodes.
func (b *testbed) owners(ctx context.Context) ([]int, error) {
	response, err := requestNodes(ctx, b.child.url)
	if err != nil {
		return nil, err
	}
	owners := make([]int, len(response.Shards))
	for shard, s := range response.Shards {
		owners[shard] = slices.IndexFunc(b.nodes, func(c *child) bool { return c.node == s.Node })
		if owners[shard] < 0 {
			return nil, fmt.Errorf("shard %d belongs to no node", shard)
		}
	}
	return owners, nil
}
