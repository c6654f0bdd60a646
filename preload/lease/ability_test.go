package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// amqp is the ability of a target.
const amqp = "amqp"

// joinTwo returns two nodes with 32 shards each.
func joinTwo(t *testing.T, leases store.Leaser) (a, b *member) {
	t.Helper()
	a, b = join(t, leases, "a", "a", false), join(t, leases, "b", "b", false)
	time.Sleep(2 * time.Second)
	wantShardCounts(t, "two", []int{32, 32}, a, b)
	return a, b
}

// epochs returns the epoch of each shard's lease. It changes when another node takes the shard.
func epochs(t *testing.T, leases store.Leaser) (epochs []int64) {
	t.Helper()
	c, err := leases.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range c.Leases {
		epochs = append(epochs, l.Epoch)
	}
	return epochs
}

// A node with a key for secrets names the nodes that lack it.
func TestNodesWithoutTheKeyAreNamed(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		keyed := func(name string, keys ...string) *member {
			cfg := DefaultConfig()
			cfg.Name, cfg.Incarnation, cfg.SecretKeys = name, name, keys
			return joinAs(t, leases, cfg)
		}
		members := []*member{keyed("a", "new", "old"), keyed("b", "old", "new"), keyed("c", "old"), keyed("d")}
		time.Sleep(2 * time.Second)
		for i, want := range []string{"c,d", "d", "d", ""} {
			var lack []string
			for _, l := range members[i].Limited() {
				if l.LacksKey != members[i].cfg.SecretKeys[0] || len(l.Lacks) > 0 {
					t.Errorf("%s sees %+v", members[i].cfg.Name, l)
				}
				lack = append(lack, l.Name)
			}
			if got := strings.Join(lack, ","); got != want {
				t.Errorf("%s sees %q without its key", members[i].cfg.Name, got)
			}
		}
		for _, m := range members {
			m.leave()
		}
	})
}

// A node that cannot publish yields its shards after two seconds and takes none. It gets its share back when it has
// been able to publish for some seconds.
func TestUnableNodeYieldsItsShards(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := joinTwo(t, leases)
		given := changesOf(b, changeGiven)
		b.lack(amqp)
		time.Sleep(1900 * time.Millisecond)
		wantShardCounts(t, "before b yields", []int{32, 32}, a, b)
		if l := a.Limited(); len(l) != 1 || l[0].Name != "b" || !slices.Equal(l[0].Lacks, []string{amqp}) {
			t.Errorf("a sees limited nodes %+v", l)
		}
		time.Sleep(time.Second)
		wantShardCounts(t, "after b yielded", []int{64, 0}, a, b)
		if n := changesOf(b, changeGiven) - given; n != 32 {
			t.Errorf("b yielded %v shards", n)
		}
		time.Sleep(10 * time.Second)
		wantShardCounts(t, "b still lacks the ability", []int{64, 0}, a, b)
		b.lack()
		time.Sleep(2500 * time.Millisecond)
		wantShardCounts(t, "b has just recovered", []int{64, 0}, a, b)
		time.Sleep(1500 * time.Millisecond)
		wantShardCounts(t, "b has recovered", []int{32, 32}, a, b)
		for _, message := range []string{`lacks an ability: its shards go to nodes that have it" ability=amqp reason="nothing listens"`, "no longer lacks the ability"} {
			if n := strings.Count(b.log.String(), message); n != 1 {
				t.Errorf("%d times %q in\n%s", n, message, b.log)
			}
		}
		a.leave()
		b.leave()
	})
}

// Repeated losses of an ability move no shard if each lasts less than two seconds.
func TestShortLossMovesNoShard(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := joinTwo(t, leases)
		before := epochs(t, leases)
		for range 5 {
			b.lack(amqp)
			time.Sleep(1500 * time.Millisecond)
			b.lack()
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if after := epochs(t, leases); !slices.Equal(before, after) {
			t.Errorf("epochs were %v, are %v", before, after)
		}
		if log := b.log.String(); strings.Contains(log, "ability") {
			t.Errorf("the log of losses that move no shard:\n%s", log)
		}
		a.leave()
		b.leave()
	})
}

// While no node can publish, no shard changes hands. The nodes notice the loss and the recovery one after the other,
// and still no shard moves.
func TestNoShardMovesWhileAllNodesLackAnAbility(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := joinTwo(t, leases)
		before := epochs(t, leases)
		b.lack(amqp)
		time.Sleep(1200 * time.Millisecond)
		a.lack(amqp)
		time.Sleep(20 * time.Second)
		wantShardCounts(t, "neither node can publish", []int{32, 32}, a, b)
		a.lack()
		time.Sleep(1500 * time.Millisecond)
		b.lack()
		time.Sleep(10 * time.Second)
		if after := epochs(t, leases); !slices.Equal(before, after) {
			t.Errorf("epochs were %v, are %v", before, after)
		}
		a.leave()
		b.leave()
	})
}

// Nodes that lack different abilities give each other no shard. A node that lacks both yields to a node that lacks one.
func TestDifferentAbilitiesMoveNoShard(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := joinTwo(t, leases)
		before := epochs(t, leases)
		a.lack(AbilityRead)
		b.lack(amqp)
		time.Sleep(10 * time.Second)
		if after := epochs(t, leases); !slices.Equal(before, after) {
			t.Errorf("epochs were %v, are %v", before, after)
		}
		b.lack(amqp, AbilityRead)
		time.Sleep(5 * time.Second)
		wantShardCounts(t, "b lacks more", []int{64, 0}, a, b)
		a.leave()
		b.leave()
	})
}

// A node dies while both nodes lack an ability. Its shards go to the only living node. A third node that joins and can
// publish gets all shards.
func TestUnableNodeTakesShardsOfDeadUnableNode(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := joinTwo(t, leases)
		a.lack(amqp)
		b.lack(amqp)
		time.Sleep(5 * time.Second)
		b.link.setCut(true)
		time.Sleep(5 * time.Second)
		wantShardCounts(t, "b is dead", []int{64}, a)
		c := join(t, leases, "c", "c", false)
		time.Sleep(3 * time.Second)
		wantShardCounts(t, "c can publish", []int{0, 64}, a, c)
		for _, m := range []*member{a, b, c} {
			m.leave()
		}
	})
}

// A node does not yield its shards after the database failed for all nodes, even if its reads fail some seconds longer
// than the other node's.
func TestReadLossDuringDatabaseOutageMovesNoShard(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := joinTwo(t, leases)
		before := epochs(t, leases)
		a.link.setCut(true)
		b.link.setCut(true)
		b.lack(AbilityRead)
		time.Sleep(10 * time.Second)
		a.link.setCut(false)
		b.link.setCut(false)
		time.Sleep(1500 * time.Millisecond)
		b.lack()
		time.Sleep(10 * time.Second)
		wantShardCounts(t, "after the outage", []int{32, 32}, a, b)
		if after := epochs(t, leases); !slices.Equal(before, after) {
			t.Errorf("epochs were %v, are %v", before, after)
		}
		a.leave()
		b.leave()
	})
}

// brokenLoader is a store.Loader whose reads fail or hang on demand.
type brokenLoader struct {
	mu    sync.Mutex
	err   error
	hangs bool
}

func (l *brokenLoader) set(err error, hangs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.hangs = err, hangs
}

func (l *brokenLoader) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	l.mu.Lock()
	err, hangs := l.err, l.hangs
	l.mu.Unlock()
	if hangs {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // the stores' read timeout
		defer cancel()
		<-ctx.Done()
		return store.DuePage{}, ctx.Err()
	}
	return store.DuePage{CompleteUntil: q.Until}, err
}

// A node whose loaders cannot read loses no lease, because it yields its shards. It gets its share back when its reads
// succeed, although it has no shard to read meanwhile.
func TestNodeThatCannotReadYieldsItsShards(t *testing.T) {
	for name, fault := range map[string]struct {
		err   error
		hangs bool
	}{"reads fail": {errors.New("the read fails"), false}, "reads hang": {nil, true}} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, leases *storetest.Leases) {
				table := &brokenLoader{}
				reads := preload.NewReads(table)
				a, b := joinTwo(t, leases)
				ctx, cancel := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { _ = reads.Run(ctx) })
				running.Go(func() { loadFor(ctx, b, reads) })
				b.lackWhile(func() []string {
					if reads.Failing() {
						return []string{AbilityRead}
					}
					return nil
				})
				time.Sleep(5 * time.Second)
				wantShardCounts(t, "b can read", []int{32, 32}, a, b)
				table.set(fault.err, fault.hangs)
				time.Sleep(5 * time.Second)
				wantShardCounts(t, "b cannot read", []int{64, 0}, a, b)
				if n := changesOf(b, changeLost); n != 0 {
					t.Errorf("b lost %v leases", n)
				}
				time.Sleep(30 * time.Second)
				wantShardCounts(t, "b still cannot read", []int{64, 0}, a, b)
				table.set(nil, false)
				time.Sleep(12 * time.Second)
				wantShardCounts(t, "b can read again", []int{32, 32}, a, b)
				cancel()
				running.Wait()
				a.leave()
				b.leave()
			})
		})
	}
}

// loadFor reads the shards of a node once a second, like its loaders.
func loadFor(ctx context.Context, m *member, reads *preload.Reads) {
	for ctx.Err() == nil {
		if shards := m.Shards(); len(shards) > 0 {
			_, _ = reads.Due(ctx, store.DueQuery{Shards: shards, Until: store.Position{Time: 1}, Limit: 1})
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// A process that starts announces an ability as soon as it has it. A later recovery is announced after enabledAfter.
func TestStartingNodeAnnouncesAbilityAtOnce(t *testing.T) {
	var a abilities
	now := time.Now()
	a.update([]string{amqp}, now)
	if lacks := a.announced(); !slices.Equal(lacks, []string{amqp}) {
		t.Errorf("before the first connection: lacks %v", lacks)
	}
	if a.update(nil, now.Add(time.Millisecond)); a.announced() != nil {
		t.Errorf("after the first connection: lacks %v", a.announced())
	}
	a.update([]string{amqp}, now.Add(time.Second))
	a.update(nil, now.Add(2*time.Second))
	if a.announced() == nil {
		t.Error("the recovery is announced at once")
	}
	if a.update(nil, now.Add(2*time.Second+enabledAfter)); a.announced() != nil {
		t.Errorf("%s after the recovery: lacks %v", enabledAfter, a.announced())
	}
}
