package preload

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// bubbleTime is the database's clock: the bubble's, a while apart.
type bubbleTime struct {
	mu      sync.Mutex
	unknown bool
}

func (b *bubbleTime) Now() (clock.Instant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unknown {
		return clock.NoInstant, &clock.Error{Kind: clock.ErrUnavailable}
	}
	return clock.InstantOf(time.Now().Add(26 * time.Hour)), nil
}

// access is one node's way to the leases: it may be cut.
type access struct {
	store.Leaser
	mu  sync.Mutex
	cut bool
}

var errCut = errors.New("no way to the database")

func (a *access) set(cut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = cut
}

func (a *access) Cluster(ctx context.Context) (store.Cluster, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cut {
		return store.Cluster{}, errCut
	}
	return a.Leaser.Cluster(ctx)
}

func (a *access) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cut {
		return errCut
	}
	return a.Leaser.Attend(ctx, n, forget)
}

func (a *access) Leave(ctx context.Context, incarnation string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cut {
		return errCut
	}
	return a.Leaser.Leave(ctx, incarnation)
}

// member is a Keeper that runs until leave.
type member struct {
	*Keeper
	access *access
	time   *bubbleTime
	reg    *prometheus.Registry
	log    *strings.Builder
	leave  func() // and wait

	mu         sync.Mutex
	subscribed []string
	signal     chan struct{}
}

func join(t *testing.T, leases store.Leaser, name, incarnation string, streams bool, subscribed ...string) *member {
	t.Helper()
	m := &member{
		access: &access{Leaser: leases}, time: &bubbleTime{}, reg: prometheus.NewRegistry(), log: &strings.Builder{},
		subscribed: subscribed, signal: make(chan struct{}, 1),
	}
	cfg := DefaultKeeperConfig()
	cfg.Name, cfg.Incarnation, cfg.Streams = name, incarnation, streams
	deps := KeeperDeps{
		Leaser: m.access, Time: m.time, Address: func() string { return "" }, Log: slog.New(slog.NewTextHandler(m.log, nil)), Registerer: m.reg,
	}
	if streams {
		deps.Streams = m
	}
	var err error
	if m.Keeper, err = NewKeeper(cfg, deps); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = m.Run(ctx) })
	m.leave = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	return m
}

// Applications and Subscribed are the node's Streams.
func (m *member) Applications() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.subscribed)
}

func (m *member) Subscribed() <-chan struct{} { return m.signal }

func (m *member) subscribe(applications ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribed = applications
	m.signal <- struct{}{}
}

// shares returns how many shards each owns, and fails where two own one.
func shares(t *testing.T, members ...*member) (n []int) {
	t.Helper()
	owner := map[int]string{}
	for _, m := range members {
		for _, shard := range m.Owned() {
			if owner[shard] != "" {
				t.Errorf("%s and %s own shard %d", owner[shard], m.cfg.Incarnation, shard)
			}
			owner[shard] = m.cfg.Incarnation
		}
		n = append(n, len(m.Owned()))
	}
	return n
}

func wantShares(t *testing.T, what string, want []int, members ...*member) {
	t.Helper()
	synctest.Wait()
	if got := shares(t, members...); !slices.Equal(got, want) {
		t.Errorf("%s: shares %v, want %v", what, got, want)
	}
}

// unrung returns shards that no member has in its Shards.
func unrung(members ...*member) (shards []int) {
	for shard := range 64 {
		if !slices.ContainsFunc(members, func(m *member) bool { return slices.Contains(m.Shards(), shard) }) {
			shards = append(shards, shard)
		}
	}
	return shards
}

// inCluster runs a test over 64 shards in a bubble.
func inCluster(t *testing.T, test func(t *testing.T, leases *storetest.Leases)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, storetest.NewLeases(64)) })
}

// TestJoinAndLeave: shares are even half a second after a node has come or gone, and at every moment somebody rings each shard.
func TestJoinAndLeave(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a := join(t, leases, "a", "a", false)
		wantShares(t, "alone, at once", []int{64}, a)
		b := join(t, leases, "b", "b", false)
		all := []*member{a, b}
		settle := func(what string, want ...int) {
			t.Helper()
			for range 600 {
				synctest.Wait()
				if missing := unrung(a, b); len(all) == 2 && missing != nil {
					t.Fatalf("%s: nobody rings %v", what, missing)
				}
				time.Sleep(time.Millisecond)
			}
			wantShares(t, what, want, all...)
		}
		settle("two", 32, 32)
		time.Sleep(time.Second)
		c := join(t, leases, "c", "0", false) // the first of all in order: the remainder becomes its own
		all = append(all, c)
		settle("three", 21, 21, 22)
		if n := len(a.Shards()); n != 32 {
			t.Errorf("a gave up shards and rings %d at once", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(a.Shards()); n != 21 {
			t.Errorf("a second later a rings %d", n)
		}
		begun := time.Now()
		c.leave()
		t.Logf("c left within %s", time.Since(begun))
		if took := time.Since(begun); took < 100*time.Millisecond || took > 600*time.Millisecond {
			t.Errorf("it took %s to leave", took)
		}
		if missing := unrung(a, b); missing != nil {
			t.Errorf("when c stops nobody rings %v", missing)
		}
		all = all[:2]
		settle("two again", 32, 32)
		b.leave()
		begun = time.Now()
		a.leave()
		if took := time.Since(begun); took != 0 {
			t.Errorf("alone it took %s to leave", took)
		}
		if n := counter(t, a.reg, "clockd_preload_lease_errors_total"); n != 0 {
			t.Errorf("%v rounds failed", n)
		}
		if log := a.log.String(); strings.Count(log, "shards changed hands") > 12 || !strings.Contains(log, "given=32") {
			t.Errorf("a logged\n%s", log)
		}
	})
}

// TestDeath: what a node has that does not leave is taken within 2 s; nobody waits longer than Grace for a node that cannot take.
func TestDeath(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := join(t, leases, "a", "a", false), join(t, leases, "b", "b", false)
		time.Sleep(1900 * time.Millisecond)
		wantShares(t, "two", []int{32, 32}, a, b)
		b.access.set(true)
		died := time.Now()
		for len(a.Owned()) < 64 && time.Since(died) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		t.Logf("taken %s after the death", time.Since(died))
		if since := time.Since(died); since < time.Second || since > 1750*time.Millisecond {
			t.Errorf("taken after %s", since)
		}
		if len(b.Shards()) != 32 {
			t.Errorf("b, which does not know, dropped shards: %v", b.Shards())
		}
		b.access.set(false)
		time.Sleep(3 * time.Second)
		wantShares(t, "it comes back", []int{32, 32}, a, b)
		b.access.set(true)
		begun := time.Now()
		a.leave()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("nobody takes, and it took %s to leave", took)
		}
		b.leave()
	})
}

// TestFrozen: a node that could not renew in time keeps what it rings until it sees that others have it; then it drops that at
// once, and gets its share again.
func TestFrozen(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := join(t, leases, "a", "a", false), join(t, leases, "b", "b", false)
		time.Sleep(2 * time.Second)
		a.access.set(true)
		time.Sleep(10 * time.Second)
		wantShares(t, "b has all", []int{64}, b)
		if n := len(a.Shards()); n != 32 {
			t.Errorf("a rings %d shards while it sees nothing", n)
		}
		a.access.set(false)
		time.Sleep(501 * time.Millisecond) // its longest pause
		synctest.Wait()
		if n := counterOf(t, a.reg, "clockd_preload_lease_changes_total", "lost"); n != 32 {
			t.Errorf("%v were lost", n)
		}
		time.Sleep(2 * time.Second)
		wantShares(t, "back", []int{32, 32}, a, b)
		a.leave()
		b.leave()
	})
}

// TestOutage: when the database fails for all, longer than leases last, all keep what they ring, and nobody takes the others'
// shards before they had the time to come back.
func TestOutage(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		var all []*member
		for i := range 4 {
			all = append(all, join(t, leases, fmt.Sprint(i), fmt.Sprint(i), false))
		}
		time.Sleep(3 * time.Second)
		wantShares(t, "before", []int{16, 16, 16, 16}, all...)
		for _, m := range all {
			m.access.set(true)
		}
		time.Sleep(20 * time.Second)
		if missing := unrung(all...); missing != nil {
			t.Errorf("during the outage nobody rings %v", missing)
		}
		for _, m := range all {
			m.access.set(false)
		}
		time.Sleep(5 * time.Second)
		wantShares(t, "after", []int{16, 16, 16, 16}, all...)
		for _, m := range all {
			if n := counterOf(t, m.reg, "clockd_preload_lease_changes_total", "lost"); n != 0 {
				t.Errorf("%s lost %v shards", m.cfg.Name, n)
			}
			if n := counter(t, m.reg, "clockd_preload_lease_errors_total"); n < 10 || n > 60 {
				t.Errorf("%v rounds failed in 20 s", n)
			}
		}
		for _, m := range all {
			m.leave()
		}
	})
}

// TestTimeUnknown: without the database's time nothing is renewed or taken.
func TestTimeUnknown(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := join(t, leases, "a", "a", false), join(t, leases, "b", "b", false)
		time.Sleep(2 * time.Second)
		a.time.mu.Lock()
		a.time.unknown = true
		a.time.mu.Unlock()
		time.Sleep(4 * time.Second)
		wantShares(t, "b has all", []int{64}, b)
		b.leave()
		time.Sleep(4 * time.Second)
		if c, _ := leases.Cluster(t.Context()); len(c.Nodes) != 1 || c.Leases[0].Incarnation != "" {
			t.Errorf("a took: %+v", c.Leases[0])
		}
		a.leave()
	})
}

// TestNameShared: two processes with one name share the shards like any others, and say so; a predecessor that died is none.
func TestNameShared(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		first := join(t, leases, "a", "1", false)
		time.Sleep(2 * time.Second)
		first.access.set(true)
		first.leave() // not graceful: it could not
		second := join(t, leases, "a", "2", false)
		time.Sleep(10 * time.Second)
		if second.NameShared() {
			t.Error("a predecessor that died is taken for another process")
		}
		third := join(t, leases, "a", "3", false)
		time.Sleep(2 * time.Second)
		wantShares(t, "two of one name", []int{32, 32}, second, third)
		if !second.NameShared() || !third.NameShared() {
			t.Errorf("name shared: %t, %t", second.NameShared(), third.NameShared())
		}
		third.leave()
		time.Sleep(time.Second)
		if second.NameShared() {
			t.Error("the name is still shared")
		}
		if n := strings.Count(second.log.String(), "has this node's name"); n != 1 {
			t.Errorf("%d warnings", n)
		}
		second.leave()
	})
}

// TestSubscribers: of each application and shard exactly one node that has a subscriber rings, the owner where it has one; and
// what nobody has a subscriber for, the owner.
func TestSubscribers(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a := join(t, leases, "a", "a", true, "shop", "both")
		b := join(t, leases, "b", "b", true, "both")
		c := join(t, leases, "c", "c", true)
		all := []*member{a, b, c}
		rings := func(application string) (n []int) {
			t.Helper()
			synctest.Wait()
			n = make([]int, len(all))
			for shard := range 64 {
				var here []int
				for i, m := range all {
					if m.Wanted(shard, application) && slices.Contains(m.Shards(), shard) {
						here = append(here, i)
					}
				}
				if len(here) != 1 {
					t.Fatalf("shard %d of %s is rung by %v", shard, application, here)
				}
				n[here[0]]++
			}
			return n
		}
		time.Sleep(3 * time.Second)
		wantShares(t, "three", []int{22, 21, 21}, all...)
		if n := rings("nobody"); !slices.Equal(n, []int{22, 21, 21}) {
			t.Errorf("what nobody subscribed: %v", n)
		}
		if n := rings("shop"); !slices.Equal(n, []int{64, 0, 0}) {
			t.Errorf("what a alone subscribed: %v", n)
		}
		n := rings("both")
		t.Logf("what a and b subscribed: %v", n)
		if n[0] < 25 || n[1] < 25 || n[2] != 0 {
			t.Errorf("what a and b subscribed: %v", n)
		}
		for _, m := range []*member{a, b} {
			for _, shard := range m.Owned() {
				if !m.Wanted(shard, "both") {
					t.Errorf("%s has shard %d and a subscriber, and does not ring", m.cfg.Name, shard)
				}
			}
		}
		changed := a.Changed()
		b.subscribe("both", "shop")
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		select {
		case <-changed:
		default:
			t.Error("a was not told of b's subscriber")
		}
		if n := rings("shop"); n[1] < 21 || n[0] < 22 {
			t.Errorf("what both subscribed: %v", n)
		}
		b.access.set(true) // it dies
		time.Sleep(4 * time.Second)
		all = []*member{a, c}
		if n := rings("both"); !slices.Equal(n, []int{64, 0}) {
			t.Errorf("after b's death: %v", n)
		}
		changed = a.Changed()
		time.Sleep(10 * time.Second)
		select {
		case <-changed:
			t.Error("a says that something changed when nothing has")
		default:
		}
		for _, m := range []*member{a, b, c} {
			m.leave()
		}
	})
}

func TestKeeperConfigValidate(t *testing.T) {
	valid := DefaultKeeperConfig()
	valid.Name, valid.Incarnation = "a", "1"
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*KeeperConfig){
		func(c *KeeperConfig) { c.Name = "" }, func(c *KeeperConfig) { c.Incarnation = "" }, func(c *KeeperConfig) { c.Look = time.Millisecond },
		func(c *KeeperConfig) { c.Renew = 2 * time.Second }, func(c *KeeperConfig) { c.Grace = -1 }, func(c *KeeperConfig) { c.Look = 2 * time.Second },
	} {
		c := valid
		if change(&c); c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}
