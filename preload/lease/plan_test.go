package lease

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// planners are nodes that follow the plan. Each plans for the cluster as it saw it last.
type planners struct {
	leases *storetest.Leases
	views  map[string]store.Cluster // by node, the cluster at its last look
	lacks  map[string][]string      // by node, the abilities that it lacks
	now    clock.Instant
}

const planTTL = 3000 // milliseconds

func (p *planners) look(t *rapid.T, node string) {
	c, err := p.leases.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.views[node] = c
}

// act takes and yields shards as planned for the node's last view. It returns the number of these shards.
func (p *planners) act(t *rapid.T, node string) int {
	take, yield := plan(p.views[node], node, p.lacks[node], p.now)
	if len(take) > 0 && len(yield) > 0 {
		t.Fatalf("%s takes %v and gives up %v", node, take, yield)
	}
	if _, err := p.leases.Take(t.Context(), p.node(node), p.now, take); err != nil {
		t.Fatal(err)
	}
	if err := p.leases.Yield(t.Context(), node, yield); err != nil {
		t.Fatal(err)
	}
	return len(take) + len(yield)
}

func (p *planners) node(node string) store.Node {
	return store.Node{Incarnation: node, Name: node, Expires: p.now + planTTL, Lacks: p.lacks[node]}
}

func (p *planners) attend(t *rapid.T, node string) {
	if err := p.leases.Attend(t.Context(), p.node(node), p.now-planTTL); err != nil {
		t.Fatal(err)
	}
}

// Nodes join, die and act on outdated views. From any such state of the leases, three rounds of all nodes make the
// shares of the ablest nodes even. After that no shard moves. Meanwhile no node takes another node's lease before it
// ends.
func TestPlanComesToRestWithEvenShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SampledFrom([]int{1, 2, 7, 64}).Draw(t, "shards")
		p := &planners{leases: storetest.NewLeases(shards), views: map[string]store.Cluster{},
			lacks: map[string][]string{}, now: 1_000_000}
		nodes := []string{"a"}
		next := 'b'
		node := func(t *rapid.T) string { return rapid.SampledFrom(nodes).Draw(t, "node") }
		p.look(t, "a")
		var before []store.Lease
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				if len(nodes) < 9 {
					name := fmt.Sprintf("%c%c", rapid.SampledFrom([]rune("abcxyz")).Draw(t, "first"), next)
					next++
					nodes = append(nodes, name)
					p.attend(t, name)
					p.look(t, name)
				}
			},
			"die": func(t *rapid.T) {
				if len(nodes) > 1 {
					gone := node(t)
					nodes = slices.DeleteFunc(nodes, func(n string) bool { return n == gone })
				}
			},
			"attend": func(t *rapid.T) { p.attend(t, node(t)) },
			"lack": func(t *rapid.T) {
				lacks := rapid.SampledFrom([][]string{nil, {"amqp"}, {"read"}, {"amqp", "read"}})
				p.lacks[node(t)] = lacks.Draw(t, "abilities")
			},
			"look": func(t *rapid.T) { p.look(t, node(t)) },
			"act": func(t *rapid.T) {
				actor := node(t)
				p.act(t, actor)
				after, _ := p.leases.Cluster(t.Context())
				for i, l := range before {
					if l.Expires > p.now && l.Incarnation != actor && l.Incarnation != after.Leases[i].Incarnation &&
						l.Incarnation != "" {
						t.Fatalf("%s took shard %d of %s, whose lease lasts %d ms more", actor, i, l.Incarnation,
							l.Expires-p.now)
					}
				}
			},
			"time": func(t *rapid.T) { p.now += clock.Instant(rapid.IntRange(1, 4000).Draw(t, "ms")) },
			"":     func(t *rapid.T) { c, _ := p.leases.Cluster(t.Context()); before = c.Leases },
		})
		p.now += 2 * planTTL // the leases of dead nodes have ended
		for _, n := range nodes {
			p.attend(t, n)
		}
		for range 3 {
			for _, n := range nodes {
				p.look(t, n)
			}
			for _, n := range rapid.Permutation(nodes).Draw(t, "order") {
				p.act(t, n)
			}
		}
		c, _ := p.leases.Cluster(t.Context())
		owned := map[string]int{}
		for _, l := range c.Leases {
			owned[l.Incarnation]++
		}
		able := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool {
			return slices.ContainsFunc(nodes, func(other string) bool { return outdoes(p.lacks[other], p.lacks[n]) })
		})
		for _, n := range nodes {
			least := shards / len(able)
			switch got := owned[n]; {
			case !slices.Contains(able, n) && got != 0,
				slices.Contains(able, n) && got != least && (got != least+1 || shards%len(able) == 0):
				t.Fatalf("%d shards, nodes %v, missing abilities %v: owned are %v", shards, nodes, p.lacks, owned)
			}
			if p.look(t, n); p.act(t, n) != 0 {
				t.Fatalf("%s still moves shards, with %v owned", n, owned)
			}
		}
	})
}

// A node outdoes another node if it lacks a strict subset of the other's missing abilities. Nodes that lack the same
// abilities or different ones do not outdo each other.
func TestNodeOutdoesOnlyWithStrictSubsetOfLacks(t *testing.T) {
	for _, c := range []struct {
		lacks, otherLacks []string
		want              bool
	}{
		{nil, nil, false},
		{nil, []string{"amqp"}, true},
		{[]string{"amqp"}, nil, false},
		{[]string{"amqp"}, []string{"amqp"}, false},
		{[]string{"amqp"}, []string{"read"}, false},
		{[]string{"amqp"}, []string{"amqp", "read"}, true},
		{[]string{"stream"}, []string{"amqp", "read"}, false},
	} {
		if got := outdoes(c.lacks, c.otherLacks); got != c.want {
			t.Errorf("outdoes(%v, %v) is %t", c.lacks, c.otherLacks, got)
		}
	}
}
