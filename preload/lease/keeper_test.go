package lease

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
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// bubbleTime is the database's clock: 26 hours ahead of the synctest bubble's clock.
type bubbleTime struct {
	mu      sync.Mutex
	unknown bool
	back    time.Duration // by which the clock was set back
}

func (b *bubbleTime) AtLeast() (clock.Instant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.unknown {
		return clock.NoInstant, &clock.Error{Kind: clock.ErrUnavailable}
	}
	return clock.InstantOf(time.Now().Add(26*time.Hour - b.back)), nil
}

func (*bubbleTime) FollowClosely(time.Duration) {}

// leaserLink is one node's connection to the leases. While it is cut, its calls fail.
type leaserLink struct {
	store.Leaser
	mu     sync.Mutex
	cut    bool
	locked bool // the rows of leases that the node does not have
}

var errCut = errors.New("the connection to the database is cut")

func (a *leaserLink) setCut(cut bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cut = cut
}

func (a *leaserLink) Cluster(ctx context.Context) (store.Cluster, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cut {
		return store.Cluster{}, errCut
	}
	return a.Leaser.Cluster(ctx)
}

func (a *leaserLink) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cut {
		return errCut
	}
	return a.Leaser.Attend(ctx, n, forget)
}

func (a *leaserLink) Leave(ctx context.Context, incarnation string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cut {
		return errCut
	}
	return a.Leaser.Leave(ctx, incarnation)
}

// member is a Keeper that runs until leave, and its dependencies.
type member struct {
	*Keeper
	link  *leaserLink
	time  *bubbleTime
	log   *strings.Builder
	leave func() // ends Run and waits for it
	ended error  // result of Run, after leave

	mu         sync.Mutex
	subscribed []string
	signal     chan struct{}
	lacks      func() []string
}

// join starts a Keeper with the given name and incarnation.
func join(t *testing.T, leases store.Leaser, name, incarnation string, streams bool, subscribed ...string) *member {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Name, cfg.Incarnation, cfg.Streams = name, incarnation, streams
	return joinAs(t, leases, cfg, subscribed...)
}

// joinAs starts the node of a configuration.
func joinAs(t *testing.T, leases store.Leaser, cfg Config, subscribed ...string) *member {
	t.Helper()
	m := &member{
		link: &leaserLink{Leaser: leases}, time: &bubbleTime{}, log: &strings.Builder{},
		subscribed: subscribed, signal: make(chan struct{}, 1), lacks: func() []string { return nil },
	}
	deps := Deps{
		Leaser: m.link, Time: m.time, Address: func() string { return "" }, Lacks: m.lacksNow,
		Why: func(string) string { return "nothing listens" }, Log: slog.New(slog.NewTextHandler(m.log, nil)),
		Registerer: prometheus.NewRegistry(),
	}
	if cfg.Streams {
		deps.Streams = m
	}
	var err error
	if m.Keeper, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.ended = m.Run(ctx) })
	m.leave = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	return m
}

// Applications and ApplicationsChanged implement Streams.
func (m *member) Applications() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.subscribed)
}

func (m *member) ApplicationsChanged() <-chan struct{} { return m.signal }

func (m *member) subscribe(applications ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subscribed = applications
	select {
	case m.signal <- struct{}{}:
	default:
	}
}

// lacksNow returns the abilities that the node lacks now.
func (m *member) lacksNow() []string {
	m.mu.Lock()
	lacks := m.lacks
	m.mu.Unlock()
	return lacks()
}

// lackWhile sets the func that returns the abilities that the node lacks.
func (m *member) lackWhile(lacks func() []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lacks = lacks
}

// lack sets the abilities that the node lacks.
func (m *member) lack(abilities ...string) { m.lackWhile(func() []string { return abilities }) }

// shardCounts returns the number of shards that each member owns. The test fails if two members own the same shard.
func shardCounts(t *testing.T, members ...*member) (n []int) {
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

func wantShardCounts(t *testing.T, what string, want []int, members ...*member) {
	t.Helper()
	synctest.Wait()
	if got := shardCounts(t, members...); !slices.Equal(got, want) {
		t.Errorf("%s: shares %v, want %v", what, got, want)
	}
}

// unloadedShards returns the shards that no member loads.
func unloadedShards(members ...*member) (shards []int) {
	for shard := range 64 {
		if !slices.ContainsFunc(members, func(m *member) bool { return slices.Contains(m.Shards(), shard) }) {
			shards = append(shards, shard)
		}
	}
	return shards
}

// changesOf returns how often the member's shards changed in this way.
func changesOf(m *member, change string) float64 {
	return testutil.ToFloat64(m.metrics.changes.WithLabelValues(change))
}

// inCluster runs a test with the leases of 64 shards in a synctest bubble.
func inCluster(t *testing.T, test func(t *testing.T, leases *storetest.Leases)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, storetest.NewLeases(64)) })
}

// Shares are even 600 ms after a node has joined or left, and 900 ms after a node has joined another that was alone. At
// every moment a node rings each shard.
func TestSharesAreEvenAfterJoinAndLeave(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a := join(t, leases, "a", "a", false)
		wantShardCounts(t, "alone, at once", []int{64}, a)
		b := join(t, leases, "b", "b", false)
		all := []*member{a, b}
		settle := func(what string, within time.Duration, want ...int) {
			t.Helper()
			for range within.Milliseconds() {
				synctest.Wait()
				if missing := unloadedShards(a, b); len(all) == 2 && missing != nil {
					t.Fatalf("%s: no node rings shards %v", what, missing)
				}
				time.Sleep(time.Millisecond)
			}
			wantShardCounts(t, what, want, all...)
		}
		settle("two", 900*time.Millisecond, 32, 32)
		time.Sleep(time.Second)
		c := join(t, leases, "c", "0", false) // sorts before a and b, so it gets the remaining shard
		all = append(all, c)
		settle("three", 600*time.Millisecond, 21, 21, 22)
		if n := len(a.Shards()); n != 32 {
			t.Errorf("a yielded shards and at once rings only %d", n)
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
			t.Errorf("c took %s to leave", took)
		}
		if missing := unloadedShards(a, b); missing != nil {
			t.Errorf("when c stops, no node rings shards %v", missing)
		}
		all = all[:2]
		settle("two again", 600*time.Millisecond, 32, 32)
		b.leave()
		begun = time.Now()
		a.leave()
		if took := time.Since(begun); took != 0 {
			t.Errorf("a took %s to leave, although it is alone", took)
		}
		if n := testutil.ToFloat64(a.metrics.errors); n != 0 {
			t.Errorf("%v looks failed", n)
		}
		if log := a.log.String(); strings.Count(log, "shards changed hands") > 12 ||
			!strings.Contains(log, "given=32") {
			t.Errorf("a logged\n%s", log)
		}
	})
}

// The database demands a newer build than this one. The node logs that once, gives its shards up, and ends with
// store.ErrOldBuild.
func TestRefusedBuildLeaves(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		m := join(t, leases, "a", "a", false)
		time.Sleep(2 * time.Second)
		if err := m.Refused(); err != nil {
			t.Fatalf("refused before: %v", err)
		}
		leases.RequireBuildLevel(store.BuildLevel() + 1)
		time.Sleep(2 * time.Second)
		c, err := leases.Cluster(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Nodes) != 0 || slices.ContainsFunc(c.Leases, func(l store.Lease) bool { return l.Incarnation != "" }) {
			t.Errorf("the node has not left: %+v", c)
		}
		m.leave()
		if !errors.Is(m.ended, store.ErrOldBuild) || !errors.Is(m.Refused(), store.ErrOldBuild) {
			t.Errorf("ended with %v, refused: %v", m.ended, m.Refused())
		}
		if n := strings.Count(m.log.String(), "demands a newer build"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, m.log)
		}
	})
}

// The shards of a node that dies without leaving are taken within 2 s. A node that leaves waits at most Grace for a
// dead node to take its shards.
func TestShardsOfDeadNodeAreTaken(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := join(t, leases, "a", "a", false), join(t, leases, "b", "b", false)
		time.Sleep(1900 * time.Millisecond)
		wantShardCounts(t, "two", []int{32, 32}, a, b)
		b.link.setCut(true)
		died := time.Now()
		for len(a.Owned()) < 64 && time.Since(died) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		t.Logf("taken %s after the death", time.Since(died))
		if since := time.Since(died); since < time.Second || since > 1750*time.Millisecond {
			t.Errorf("taken after %s", since)
		}
		if len(b.Shards()) != 32 {
			t.Errorf("b does not know that a took its shards, but dropped shards: it rings %v", b.Shards())
		}
		b.link.setCut(false)
		time.Sleep(3 * time.Second)
		wantShardCounts(t, "b comes back", []int{32, 32}, a, b)
		b.link.setCut(true)
		begun := time.Now()
		a.leave()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("no node takes the shards, and a took %s to leave", took)
		}
		b.leave()
	})
}

// A node that could not renew its leases in time rings its shards until it sees that other nodes have them. Then it
// drops them at once, and gets its share back.
func TestCutOffNodeKeepsShardsUntilItSeesTheirNewOwner(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := join(t, leases, "a", "a", false), join(t, leases, "b", "b", false)
		time.Sleep(2 * time.Second)
		a.link.setCut(true)
		time.Sleep(10 * time.Second)
		wantShardCounts(t, "b has all", []int{64}, b)
		if n := len(a.Shards()); n != 32 {
			t.Errorf("a rings %d shards while it sees nothing", n)
		}
		a.link.setCut(false)
		time.Sleep(501 * time.Millisecond) // the longest pause between its looks
		synctest.Wait()
		if n := changesOf(a, changeLost); n != 32 {
			t.Errorf("a lost %v shards", n)
		}
		time.Sleep(2 * time.Second)
		wantShardCounts(t, "back", []int{32, 32}, a, b)
		a.leave()
		b.leave()
	})
}

// The database fails for all nodes, longer than leases last. All nodes keep the shards that they ring. Afterwards each
// node gives the others time to renew before it takes shards, so no shard moves.
func TestDatabaseOutageMovesNoShard(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		var all []*member
		for i := range 4 {
			all = append(all, join(t, leases, fmt.Sprint(i), fmt.Sprint(i), false))
		}
		time.Sleep(3 * time.Second)
		wantShardCounts(t, "before", []int{16, 16, 16, 16}, all...)
		for _, m := range all {
			m.link.setCut(true)
		}
		time.Sleep(20 * time.Second)
		if missing := unloadedShards(all...); missing != nil {
			t.Errorf("during the outage no node rings shards %v", missing)
		}
		for _, m := range all {
			m.link.setCut(false)
		}
		time.Sleep(5 * time.Second)
		wantShardCounts(t, "after", []int{16, 16, 16, 16}, all...)
		for _, m := range all {
			if n := changesOf(m, changeLost); n != 0 {
				t.Errorf("%s lost %v shards", m.cfg.Name, n)
			}
			if n := testutil.ToFloat64(m.metrics.errors); n < 10 || n > 60 {
				t.Errorf("%v looks failed in 20 s", n)
			}
		}
		for _, m := range all {
			m.leave()
		}
	})
}

// A node that does not know the database's time neither renews its leases nor takes free shards.
func TestNodeWithoutTimeNeitherRenewsNorTakes(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := join(t, leases, "a", "a", false), join(t, leases, "b", "b", false)
		time.Sleep(2 * time.Second)
		a.time.mu.Lock()
		a.time.unknown = true
		a.time.mu.Unlock()
		time.Sleep(4 * time.Second)
		wantShardCounts(t, "b has all", []int{64}, b)
		b.leave()
		time.Sleep(4 * time.Second)
		if c, _ := leases.Cluster(t.Context()); len(c.Nodes) != 1 || c.Leases[0].Incarnation != "" {
			t.Errorf("a took: %+v", c.Leases[0])
		}
		a.leave()
	})
}

// Two processes with one name share the shards like other nodes, and both report the shared name. A dead predecessor is
// not reported.
func TestLivingNamesakeIsReported(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		first := join(t, leases, "a", "1", false)
		time.Sleep(2 * time.Second)
		first.link.setCut(true)
		first.leave() // without giving its leases up, because its link is cut
		second := join(t, leases, "a", "2", false)
		time.Sleep(10 * time.Second)
		if second.NameShared() {
			t.Error("a predecessor that died is taken for another process")
		}
		third := join(t, leases, "a", "3", false)
		time.Sleep(2 * time.Second)
		wantShardCounts(t, "two of one name", []int{32, 32}, second, third)
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

// Exactly one node rings each application of a shard: the owner if it has a subscriber, else another node with a
// subscriber. The owner rings applications without a subscriber.
func TestOneNodeRingsEachApplicationOfAShard(t *testing.T) {
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
				var ringing []int
				for i, m := range all {
					if m.Rings(shard, store.Addressee{Application: application}) && slices.Contains(m.Shards(), shard) {
						ringing = append(ringing, i)
					}
				}
				if len(ringing) != 1 {
					t.Fatalf("%[2]s in shard %[1]d is rung by the nodes %[3]v", shard, application, ringing)
				}
				n[ringing[0]]++
			}
			return n
		}
		time.Sleep(3 * time.Second)
		wantShardCounts(t, "three", []int{22, 21, 21}, all...)
		if n := rings("unsubscribed"); !slices.Equal(n, []int{22, 21, 21}) {
			t.Errorf("without a subscriber: %v shards", n)
		}
		if n := rings("shop"); !slices.Equal(n, []int{64, 0, 0}) {
			t.Errorf("with a subscriber at a: %v shards", n)
		}
		n := rings("both")
		t.Logf("with subscribers at a and b: %v shards", n)
		if n[0] < 25 || n[1] < 25 || n[2] != 0 {
			t.Errorf("with subscribers at a and b: %v shards", n)
		}
		for _, m := range []*member{a, b} {
			for _, shard := range m.Owned() {
				if !m.Rings(shard, store.Addressee{Application: "both"}) {
					t.Errorf("%s owns shard %d and has a subscriber, but does not ring", m.cfg.Name, shard)
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
			t.Error("a does not see b's new subscriber")
		}
		if n := rings("shop"); n[1] < 21 || n[0] < 22 {
			t.Errorf("with a new subscriber at b: %v shards", n)
		}
		b.link.setCut(true) // it dies
		time.Sleep(4 * time.Second)
		all = []*member{a, c}
		if n := rings("both"); !slices.Equal(n, []int{64, 0}) {
			t.Errorf("after b's death: %v shards", n)
		}
		changed = a.Changed()
		time.Sleep(10 * time.Second)
		select {
		case <-changed:
			t.Error("a signals a change, but nothing changed")
		default:
		}
		for _, m := range []*member{a, b, c} {
			m.leave()
		}
	})
}

func TestConfigValidate(t *testing.T) {
	valid := DefaultConfig()
	valid.Name, valid.Incarnation = "a", "1"
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Name = "" }, func(c *Config) { c.Incarnation = "" },
		func(c *Config) { c.Look = time.Millisecond },
		func(c *Config) { c.Renew = 2 * time.Second }, func(c *Config) { c.Grace = -1 },
		func(c *Config) { c.Look = 2 * time.Second },
	} {
		c := valid
		if change(&c); c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}

// farLeaser is a connection with a long way: each call takes some round trips, and has its effect in the middle.
type farLeaser struct {
	store.Leaser
	trip time.Duration
}

// calls waits for half of the trips, calls do, and waits for the other half.
func (f *farLeaser) calls(ctx context.Context, trips int, do func() error) error {
	half := func() error {
		select {
		case <-time.After(time.Duration(trips) * f.trip / 2):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := half(); err != nil {
		return err
	}
	return errors.Join(do(), half())
}

func (f *farLeaser) Cluster(ctx context.Context) (c store.Cluster, err error) {
	err = f.calls(ctx, 2, func() (err error) {
		c, err = f.Leaser.Cluster(ctx)
		return err
	})
	return c, err
}

func (f *farLeaser) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	return f.calls(ctx, 4, func() error { return f.Leaser.Attend(ctx, n, forget) })
}

func (f *farLeaser) Take(
	ctx context.Context, n store.Node, until clock.Instant, shards []int,
) (taken []int, err error) {
	err = f.calls(ctx, 4, func() (err error) {
		taken, err = f.Leaser.Take(ctx, n, until, shards)
		return err
	})
	return taken, err
}

func (f *farLeaser) Yield(ctx context.Context, incarnation string, shards []int) error {
	return f.calls(ctx, 4, func() error { return f.Leaser.Yield(ctx, incarnation, shards) })
}

// A look takes longer than the least timeout, and a renewal longer than a lease usually lasts. The nodes share the
// shards all the same, and keep them.
func TestFarDatabaseKeepsLeases(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		far := &farLeaser{leases, 300 * time.Millisecond}
		all := []*member{join(t, far, "a", "a", false), join(t, far, "b", "b", false)}
		time.Sleep(time.Minute)
		wantShardCounts(t, "after a minute", []int{32, 32}, all...)
		var lost []float64
		for _, m := range all {
			lost = append(lost, changesOf(m, changeLost))
		}
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if missing := unloadedShards(all...); missing != nil {
				t.Fatalf("no node rings shards %v", missing)
			}
		}
		wantShardCounts(t, "after two minutes", []int{32, 32}, all...)
		for i, m := range all {
			if n := changesOf(m, changeLost); n != lost[i] {
				t.Errorf("%s lost %v shards in the second minute", m.cfg.Name, n-lost[i])
			}
			if err := m.Failing(); err != nil {
				t.Errorf("%s: %v", m.cfg.Name, err)
			}
			m.leave()
		}
	})
}

func (a *leaserLink) setLocked(locked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.locked = locked
}

func (a *leaserLink) Take(ctx context.Context, n store.Node, until clock.Instant, shards []int) ([]int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.locked {
		return nil, nil
	}
	return a.Leaser.Take(ctx, n, until, shards)
}

// The rows of a dead node's leases are locked, so its shards cannot be taken.
func TestLockedLeasesAreReported(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a, b := join(t, leases, "a", "a", false), join(t, leases, "b", "b", false)
		time.Sleep(5 * time.Second)
		a.link.setLocked(true)
		b.link.setCut(true)
		b.leave()
		time.Sleep(10 * time.Second)
		if err := a.Failing(); err == nil || !strings.Contains(err.Error(), "32 of 32 free shards") {
			t.Errorf("locked: %v", err)
		}
		a.link.setLocked(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := a.Failing(); err != nil || len(a.Owned()) != 64 {
			t.Errorf("free again: %v, %d shards", err, len(a.Owned()))
		}
		a.leave()
	})
}

// A node says that it cannot keep its leases, after some seconds, and until it can again.
func TestFailingLooksAreReported(t *testing.T) {
	inCluster(t, func(t *testing.T, leases *storetest.Leases) {
		a := join(t, leases, "a", "a", false)
		time.Sleep(time.Minute)
		if err := a.Failing(); err != nil {
			t.Errorf("well: %v", err)
		}
		a.link.setCut(true)
		time.Sleep(4 * time.Second)
		if err := a.Failing(); err != nil {
			t.Errorf("after 4 s: %v", err)
		}
		time.Sleep(4 * time.Second)
		if err := a.Failing(); !errors.Is(err, errCut) {
			t.Errorf("after 8 s: %v", err)
		}
		a.link.setCut(false)
		time.Sleep(2 * time.Second)
		if err := a.Failing(); err != nil {
			t.Errorf("well again: %v", err)
		}
		a.leave()
	})
}
