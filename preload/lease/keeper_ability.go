package lease

import (
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Limited is a living node whose row says that it lacks abilities, or the key with which this node encrypts secrets.
type Limited struct {
	Name, Incarnation string
	Lacks             []string // abilities, sorted
	LacksKey          string   // id of this node's key; empty if the node has it
}

// Limited returns the living nodes that lack something, this node included, as of the last look. The caller must not
// change the slice.
func (k *Keeper) Limited() []Limited {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limited
}

// updateAbilities asks which abilities this node lacks, and counts and logs the changes. Losses that move no shard are
// not logged: a process that starts lacks its brokers for a moment.
func (k *Keeper) updateAbilities() {
	local, before, yieldedFor := time.Now(), k.abilities.announced(), k.yieldsFor
	k.abilities.update(k.lacks(), local)
	k.yieldsFor = k.abilities.lackedLong(local)
	for _, ability := range k.yieldsFor {
		if !slices.Contains(yieldedFor, ability) {
			k.log.Warn("this node lacks an ability: its shards go to nodes that have it", "ability", ability, "reason",
				k.why(ability))
			if !slices.Contains(k.warned, ability) {
				k.warned = append(k.warned, ability)
			}
		}
	}
	announced := k.abilities.announced()
	for _, ability := range before {
		if i := slices.Index(k.warned, ability); i >= 0 && !slices.Contains(announced, ability) {
			k.log.Info("this node no longer lacks the ability", "ability", ability)
			k.warned = slices.Delete(k.warned, i, i+1)
		}
	}
	k.metrics.observeLosses(k.abilities, append(before, announced...), local)
}

// planMoves returns the shards to take and the shards to yield. A node that lacks an ability takes no shard while an
// abler node lives. It yields its shards when it has lacked the ability for disabledAfter and an abler node lives.
// While no node is abler, it keeps its shards.
func (k *Keeper) planMoves(c store.Cluster, now clock.Instant) (take, yield []int) {
	announced := k.abilities.announced()
	if len(announced) == 0 {
		return plan(c, k.cfg.Incarnation, nil, now)
	}
	if outdone(c, k.cfg.Incarnation, k.yieldsFor, now) {
		return nil, owned(c, k.cfg.Incarnation)
	}
	if !outdone(c, k.cfg.Incarnation, announced, now) {
		take, _ = plan(c, k.cfg.Incarnation, announced, now)
	}
	return take, nil
}

// limitedNodes returns the living nodes that lack something.
func (k *Keeper) limitedNodes(c store.Cluster, now clock.Instant) (nodes []Limited) {
	for i := range c.Nodes {
		n := &c.Nodes[i]
		l := Limited{Name: n.Name, Incarnation: n.Incarnation, Lacks: n.Lacks}
		if keys := k.cfg.SecretKeys; len(keys) > 0 && !n.HasKey(keys[0]) {
			l.LacksKey = keys[0]
		}
		if n.Alive(now) && (len(l.Lacks) > 0 || l.LacksKey != "") {
			nodes = append(nodes, l)
		}
	}
	return nodes
}
