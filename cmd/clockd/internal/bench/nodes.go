package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// nodeCounts are how many nodes share one database and exchange; the first is what the others are compared with.
var nodeCounts = []int{1, 2, 4}

// Targets of several nodes.
const (
	nodesWork   = 1.1 // times what an alarm takes of the database with one node
	nodesP99    = 10  // milliseconds
	nodesUneven = 1   // shards that the one with the most has more than the one with the fewest
)

// soonAhead is how long before they are due alarms are set that another node must learn of.
const soonAhead = time.Second

func nodesText(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// nodesResult is what some nodes did.
type nodesResult struct {
	count        int
	herd, steady Cost
	late         spread
	uneven       int
}

// nodes measures what several nodes take of one database, and whether they ring as one does.
func (r *run) nodes(ctx context.Context) error {
	var alone *nodesResult
	for _, count := range nodeCounts {
		result := &nodesResult{count: count}
		measure := func(ctx context.Context, b *bed) error { return r.measureNodes(ctx, b, result) }
		if err := r.inCountedBed(measure)(ctx); err != nil {
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

func (r *run) measureNodes(ctx context.Context, b *bed, result *nodesResult) error {
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
		stage: stageNodes, label: label + ", herd", n: max(r.cfg.Herd/2, 1), at: func(due int64) func(int) int64 { return func(int) int64 { return due } },
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

// addNodes adds figures beside one node's.
func (r *run) addNodes(n, alone *nodesResult) {
	beside, label := nodesText(alone.count), nodesText(n.count)
	p50 := Figure{What: label + ", lateness, p50", Unit: millis, Value: ms(n.late.P50)}
	p99 := Figure{What: label + ", lateness, p99", Unit: millis, Value: ms(n.late.P99)}.atMost(nodesP99)
	if n == alone {
		r.add(stageNodes, p50, p99)
		return
	}
	r.add(stageNodes, p50.beside(beside, ms(alone.late.P50)), p99.beside(beside, ms(alone.late.P99)),
		Figure{What: label + ", shards: most less fewest", Value: float64(n.uneven)}.judged(fmt.Sprintf("<= %d", nodesUneven), n.uneven <= nodesUneven))
	for _, work := range []struct{ several, one Cost }{{n.herd, alone.herd}, {n.steady, alone.steady}} {
		for _, c := range []column{colStatements, colTransactions, colLogBytes} {
			value, counted := work.several.of(c)
			one, _ := work.one.of(c)
			if counted {
				r.add(stageNodes, Figure{What: work.several.What + ", " + columnText(c), Value: value}.beside(beside, one).ratioAtMost(nodesWork))
			}
		}
	}
}

// countSteady counts alarms that come and ring at a constant rate, each set on a node that does not have its shard, and how
// late they are.
func (r *run) countSteady(ctx context.Context, b *bed, m *meter, label string) (c Cost, late spread, err error) {
	n, size := int(float64(r.cfg.Rate)*min(r.cfg.For, bareFor).Seconds()), max(r.cfg.Rate/setsASecond, 1)
	owners, err := b.owners(ctx)
	if err != nil {
		return c, late, err
	}
	const soon = series("soon")
	order := elsewhere(n, size, len(b.nodes), func(n int) int {
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
		if err := setElsewhere(ctx, b, t, order, size); err != nil {
			return err
		}
		rings, err = t.wait(ctx, time.Now().Add(soonAhead), patience)
		return err
	})
	if err != nil {
		return c, late, err
	}
	r.addRings(b, stageNodes, rings)
	return c, t.lateness(), nil
}

// elsewhere orders alarms 0..n-1 so that none of batch i is owned by node i modulo nodes, where it is set; a few last ones may
// be.
func elsewhere(n, size, nodes int, owner func(n int) int) []int {
	owned := make([][]int, nodes)
	for i := range n {
		node := owner(i)
		owned[node] = append(owned[node], i)
	}
	order := make([]int, 0, n)
	for place := range n {
		setOn := place / size % nodes
		from := setOn
		for node := range owned { // the one that has most left
			if node != setOn && len(owned[node]) > 0 && (from == setOn || len(owned[node]) > len(owned[from])) {
				from = node
			}
		}
		order = append(order, owned[from][0])
		owned[from] = owned[from][1:]
	}
	return order
}

// setElsewhere sets the alarms in their order, batches in turn on every node, each some time before it is due.
func setElsewhere(ctx context.Context, b *bed, t *tally, order []int, size int) error {
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

// owners returns which node each shard belongs to, by its number in the bed.
func (b *bed) owners(ctx context.Context) ([]int, error) {
	answer, err := askNodes(ctx, b.child.url)
	if err != nil {
		return nil, err
	}
	owners := make([]int, len(answer.Shards))
	for shard, s := range answer.Shards {
		owners[shard] = slices.IndexFunc(b.nodes, func(c *child) bool { return c.node == s.Node })
		if owners[shard] < 0 {
			return nil, fmt.Errorf("shard %d belongs to no node", shard)
		}
	}
	return owners, nil
}
