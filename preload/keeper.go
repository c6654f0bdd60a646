package preload

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// KeeperConfig says who the node is and how its leases are kept.
type KeeperConfig struct {
	Name        string        // for people
	Incarnation string        // of this process alone
	Version     string        // for people
	Streams     bool          // rings go to subscribers of this node's streams, not to a broker
	TTL         time.Duration // how long a lease lasts; default 3s
	Renew       time.Duration // how often it is renewed; default 1s
	Look        time.Duration // how often is looked who else is there; default 250ms
	Grace       time.Duration // how long a shard that was given up is rung on; default 1s
}

// DefaultKeeperConfig returns the defaults that each field names.
func DefaultKeeperConfig() KeeperConfig {
	return KeeperConfig{TTL: 3 * time.Second, Renew: time.Second, Look: 250 * time.Millisecond, Grace: time.Second}
}

// Validate returns all reasons against the configuration, joined, or nil.
func (c KeeperConfig) Validate() error {
	var errs []error
	check := func(ok bool, reason string) {
		if !ok {
			errs = append(errs, errors.New(reason))
		}
	}
	check(c.Name != "" && len(c.Name) <= maxNodeName, "the node's name must have from 1 to 128 bytes")
	check(c.Incarnation != "", "a node needs an incarnation")
	check(c.Look >= 10*time.Millisecond && c.Look <= c.Renew, "leases must be looked at at least as often as they are renewed")
	check(c.TTL >= 2*c.Renew, "a lease must last at least twice as long as until it is renewed, or one slow answer loses it")
	check(c.TTL <= time.Minute, "a lease must last at most 1m: so long nobody rings what a dead node had")
	check(c.Grace >= 0 && c.Grace <= c.TTL, "the grace of a shard that was given up must be at most a lease's time")
	return errors.Join(errs...)
}

const (
	// maxNodeName is what the column owner holds.
	maxNodeName = 128
	// nodeMemory is how long a dead node is shown.
	nodeMemory = time.Minute
	// keeperTimeout bounds one look with all that follows from it.
	keeperTimeout = 2 * time.Second
)

// KeeperDeps is what a Keeper works with.
type KeeperDeps struct {
	Leaser     store.Leaser
	Time       Time
	Address    func() string // where this node's HTTP listens, "" as long as it does not
	Streams    Streams       // nil unless KeeperConfig.Streams
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Streams knows the subscribers of this node.
type Streams interface {
	// Applications returns those with a subscriber, sorted.
	Applications() []string
	// Subscribed returns a channel of capacity 1 that is signalled when Applications answers differently.
	Subscribed() <-chan struct{}
}

var _ Ownership = (*Keeper)(nil)

// Keeper keeps this node's leases and knows the others': it is the Ownership of a node among others.
type Keeper struct {
	cfg     KeeperConfig
	leaser  store.Leaser
	time    Time
	address func() string
	streams Streams
	log     *slog.Logger
	metrics keeperMetrics

	// owned by the goroutine of Run
	started    clock.Instant
	attended   time.Time // when the node's row was last written
	subscribed []string  // as it was written
	given      map[int]time.Time
	failures   int

	mu      sync.Mutex
	picture *picture
	changed chan struct{}
	shared  bool // another living node has our name
}

// NewKeeper returns a Keeper that has nothing before Run.
func NewKeeper(cfg KeeperConfig, deps KeeperDeps) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Keeper{
		cfg: cfg, leaser: deps.Leaser, time: deps.Time, address: deps.Address, streams: deps.Streams, log: deps.Log,
		metrics: newKeeperMetrics(deps.Registerer), started: clock.NoInstant, given: map[int]time.Time{},
		picture: &picture{self: cfg.Incarnation}, changed: make(chan struct{}),
	}, nil
}

// Run keeps the leases until ctx ends, then gives them up and returns when others have taken them, or after a grace.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var subscribed <-chan struct{}
	if k.streams != nil {
		subscribed = k.streams.Subscribed()
	}
	for {
		timer.Reset(k.step(ctx))
		select {
		case <-ctx.Done():
			k.leave(context.WithoutCancel(ctx))
			return nil
		case <-subscribed:
		case <-timer.C:
		}
	}
}

// step looks once and returns how long to wait for the next time.
func (k *Keeper) step(ctx context.Context) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	err := k.look(ctx)
	if err == nil || errors.Is(err, context.Canceled) {
		k.failures = 0
		return k.cfg.Look
	}
	k.metrics.errors.Inc()
	level := slog.LevelDebug // the same trouble again
	if k.failures == 0 {
		level = slog.LevelWarn
	}
	k.log.Log(ctx, level, "could not keep the leases", "err", err)
	k.failures++
	pause := min(k.cfg.Renew, k.cfg.Look<<min(k.failures, 10))
	return pause/2 + rand.N(pause/2)
}

// look renews where it is time to, reads who has what, and takes or gives up what the shares demand.
func (k *Keeper) look(ctx context.Context) error {
	now, err := k.time.Now()
	if err != nil {
		return err
	}
	if err := k.attend(ctx, now); err != nil {
		return err
	}
	c, err := k.leaser.Cluster(ctx)
	if err != nil {
		return err
	}
	take, yield := plan(c, k.cfg.Incarnation, now)
	if len(take) > 0 {
		taken, err := k.leaser.Take(ctx, k.node(now), now, take)
		if err != nil {
			return err
		}
		k.took(&c, taken)
	}
	if len(yield) > 0 {
		if err := k.leaser.Yield(ctx, k.cfg.Incarnation, yield); err != nil {
			return err
		}
		k.gave(&c, yield)
	}
	k.show(c, now)
	return nil
}

// attend writes the node's row, which renews its leases.
func (k *Keeper) attend(ctx context.Context, now clock.Instant) error {
	subscribed := k.applications()
	if !k.attended.IsZero() && time.Since(k.attended) < k.cfg.Renew && slices.Equal(subscribed, k.subscribed) {
		return nil
	}
	if k.started == clock.NoInstant {
		k.started = now
	}
	begun := time.Now()
	if err := k.leaser.Attend(ctx, k.node(now), max(0, now-clock.Instant(nodeMemory.Milliseconds()))); err != nil {
		return err
	}
	k.attended, k.subscribed = begun, subscribed
	return nil
}

func (k *Keeper) applications() []string {
	if k.streams == nil {
		return nil
	}
	return k.streams.Applications()
}

// node is the row to be written.
func (k *Keeper) node(now clock.Instant) store.Node {
	return store.Node{
		Incarnation: k.cfg.Incarnation, Name: k.cfg.Name, Address: k.address(), Version: k.cfg.Version,
		Started: k.started, Expires: now.Add(k.cfg.TTL), Applications: k.applications(),
	}
}

func (k *Keeper) took(c *store.Cluster, shards []int) {
	k.metrics.changes.WithLabelValues(changeTaken).Add(float64(len(shards)))
	for i := range c.Leases {
		if _, taken := slices.BinarySearch(shards, c.Leases[i].Shard); taken {
			c.Leases[i].Incarnation = k.cfg.Incarnation
			delete(k.given, c.Leases[i].Shard)
		}
	}
}

func (k *Keeper) gave(c *store.Cluster, shards []int) {
	k.metrics.changes.WithLabelValues(changeGiven).Add(float64(len(shards)))
	for i := range c.Leases {
		if slices.Contains(shards, c.Leases[i].Shard) {
			c.Leases[i].Incarnation = ""
			k.given[c.Leases[i].Shard] = time.Now()
		}
	}
}

// show makes what was seen the node's picture.
func (k *Keeper) show(c store.Cluster, now clock.Instant) {
	given := map[int]bool{}
	for shard, since := range k.given {
		if given[shard] = time.Since(since) < k.cfg.Grace; !given[shard] {
			delete(k.given, shard)
		}
	}
	p := draw(c, k.cfg.Incarnation, k.cfg.Streams, k.applications(), given, now)
	shared, living := k.others(c, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	if shared && !k.shared {
		k.log.Warn("another node has this node's name: give each its own", "node", k.cfg.Name)
	}
	k.shared = shared
	k.metrics.nodes.Set(float64(living))
	k.metrics.shards.Set(float64(len(p.own)))
	if p.same(k.picture) {
		return
	}
	if lost := countLost(k.picture.own, p.own); lost > 0 {
		k.metrics.changes.WithLabelValues(changeLost).Add(float64(lost))
	}
	if !slices.Equal(p.own, k.picture.own) {
		k.log.Info("shares changed", "shards", len(p.own), "before", len(k.picture.own), "nodes", living)
	}
	k.picture = p
	close(k.changed)
	k.changed = make(chan struct{})
}

// others reports whether another living node has our name, and how many live.
func (k *Keeper) others(c store.Cluster, now clock.Instant) (shared bool, living int) {
	living = 1
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Incarnation != k.cfg.Incarnation && n.Expires > now {
			living++
			shared = shared || n.Name == k.cfg.Name
		}
	}
	return shared, living
}

// countLost returns how many of the shards before are not there now.
func countLost(before, now []int) int {
	lost := 0
	for _, shard := range before {
		if _, have := slices.BinarySearch(now, shard); !have {
			lost++
		}
	}
	return lost
}

// leave gives all leases up, while the node rings on, and waits until others have them.
func (k *Keeper) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, keeperTimeout)
	defer cancel()
	if err := k.leaser.Leave(ctx, k.cfg.Incarnation); err != nil {
		k.log.Warn("could not give the leases up: others take them when they expire", "err", err)
		return
	}
	const pause = 100 * time.Millisecond
	for until := time.Now().Add(k.cfg.Grace); time.Now().Before(until); {
		now, err := k.time.Now()
		if err != nil {
			return
		}
		c, err := k.leaser.Cluster(ctx)
		if err != nil {
			return
		}
		alone, taken := handedOver(c, k.cfg.Incarnation, now)
		if alone {
			return
		}
		time.Sleep(pause) // who has taken them has begun to load by then
		if taken {
			return
		}
	}
}

// handedOver reports whether nobody else lives, and whether others have all shards.
func handedOver(c store.Cluster, self string, now clock.Instant) (alone, taken bool) {
	_, nodes := rankOf(c, self, now)
	taken = !slices.ContainsFunc(c.Leases, func(l store.Lease) bool { return l.Incarnation == "" || l.Incarnation == self })
	return nodes == 1, taken
}

// Shards returns the shards to be loaded, sorted and not to be changed.
func (k *Keeper) Shards() []int { return k.seen().load }

// Owned returns the shards that this node has, or gave up a moment ago, sorted and not to be changed.
func (k *Keeper) Owned() []int { return k.seen().own }

// Wanted reports whether this node rings the application's alarms of the shard.
func (k *Keeper) Wanted(shard int, application string) bool {
	return k.seen().wanted(shard, application)
}

// Changed returns a channel that is closed when Shards, Owned or Wanted answers differently.
func (k *Keeper) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// NameShared reports whether another living node has this node's name.
func (k *Keeper) NameShared() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.shared
}

func (k *Keeper) seen() *picture {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.picture
}

// What changes a share, as metrics name it.
const (
	changeTaken = "taken"
	changeGiven = "given"
	changeLost  = "lost" // given and its grace over, or taken by another after it expired
)

type keeperMetrics struct {
	shards, nodes prometheus.Gauge
	changes       *prometheus.CounterVec
	errors        prometheus.Counter
}

func newKeeperMetrics(reg prometheus.Registerer) keeperMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "clockd_preload_" + name, Help: help})
	}
	m := keeperMetrics{
		shards: gauge("shards", "Shards that this node rings."),
		nodes:  gauge("nodes", "Nodes that live, this one included."),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_preload_lease_changes_total", Help: "Shards taken, given up, and no longer rung.",
		}, []string{"change"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_preload_lease_errors_total", Help: "Rounds of keeping the leases that failed.",
		}),
	}
	for _, c := range []string{changeTaken, changeGiven, changeLost} {
		m.changes.WithLabelValues(c)
	}
	reg.MustRegister(m.shards, m.nodes, m.changes, m.errors)
	return m
}
