package preload

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// planners are nodes that follow the plan, each with the cluster as it saw it last.
type planners struct {
	leases *storetest.Leases
	seen   map[string]store.Cluster
	now    clock.Instant
}

const planTTL = 3000

func (p *planners) look(t *rapid.T, node string) {
	c, err := p.leases.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.seen[node] = c
}

// act does what the plan says to what the node has seen, and returns how much that was.
func (p *planners) act(t *rapid.T, node string) int {
	take, yield := plan(p.seen[node], node, p.now)
	if len(take) > 0 && len(yield) > 0 {
		t.Fatalf("%s takes %v and gives up %v", node, take, yield)
	}
	n := store.Node{Incarnation: node, Name: node, Expires: p.now + planTTL}
	if _, err := p.leases.Take(t.Context(), n, p.now, take); err != nil {
		t.Fatal(err)
	}
	if err := p.leases.Yield(t.Context(), node, yield); err != nil {
		t.Fatal(err)
	}
	return len(take) + len(yield)
}

func (p *planners) attend(t *rapid.T, node string) {
	if err := p.leases.Attend(t.Context(), store.Node{Incarnation: node, Name: node, Expires: p.now + planTTL}, p.now-planTTL); err != nil {
		t.Fatal(err)
	}
}

// TestPlan: from whatever nodes that come, go and die, and act on what they saw a while ago, have made of the leases, three
// rounds of each make the shares even, and then nothing moves any more. No lease that has not ended changes hands
// but by its owner.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards := rapid.SampledFrom([]int{1, 2, 7, 64}).Draw(t, "shards")
		p := &planners{leases: storetest.NewLeases(shards), seen: map[string]store.Cluster{}, now: 1_000_000}
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
			"look":   func(t *rapid.T) { p.look(t, node(t)) },
			"act": func(t *rapid.T) {
				actor := node(t)
				p.act(t, actor)
				after, _ := p.leases.Cluster(t.Context())
				for i, l := range before {
					if l.Expires > p.now && l.Incarnation != actor && l.Incarnation != after.Leases[i].Incarnation && l.Incarnation != "" {
						t.Fatalf("%s took shard %d of %s, which had it for %d ms more", actor, i, l.Incarnation, l.Expires-p.now)
					}
				}
			},
			"time": func(t *rapid.T) { p.now += clock.Instant(rapid.IntRange(1, 4000).Draw(t, "ms")) },
			"":     func(t *rapid.T) { c, _ := p.leases.Cluster(t.Context()); before = c.Leases },
		})
		p.now += 2 * planTTL // the dead are dead
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
		for _, n := range nodes {
			if least := shards / len(nodes); owned[n] != least && (owned[n] != least+1 || shards%len(nodes) == 0) {
				t.Fatalf("of %d shards %d nodes have %v", shards, len(nodes), owned)
			}
			if p.look(t, n); p.act(t, n) != 0 {
				t.Fatalf("%s is not at rest with %v", n, owned)
			}
		}
	})
}
