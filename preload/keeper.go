package preload

import (
	"context"
	"errors"
	"log/slog"
	"maps"
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
	TTL         time.Duration // how long a lease lasts; default 1.5s
	Renew       time.Duration // how often it is renewed; default 500ms
	Look        time.Duration // how often is looked who else is there; default 250ms
	Grace       time.Duration // how long a shard that was given up is rung on; default 1s
}

// DefaultKeeperConfig returns the defaults that each field names.
func DefaultKeeperConfig() KeeperConfig {
	return KeeperConfig{TTL: 1500 * time.Millisecond, Renew: 500 * time.Millisecond, Look: 250 * time.Millisecond, Grace: time.Second}
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
	attended   time.Time                // when the node's row was last written
	subscribed []string                 // as it was written
	given      map[int]time.Time        // what was given up, and when
	patient    time.Time                // until then nothing is taken from those that seem dead
	namesakes  map[string]clock.Instant // by incarnation, of those that are shown: until when it was to live when it was first seen
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
		metrics: newKeeperMetrics(deps.Registerer), started: clock.NoInstant, given: map[int]time.Time{}, namesakes: map[string]clock.Instant{},
		picture: &picture{self: cfg.Incarnation}, changed: make(chan struct{}),
	}, nil
}

// Run keeps the leases until ctx ends, then gives them up and returns when others have taken them, or after a grace.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(k.step(ctx))
		var subscribed <-chan struct{}
		if k.streams != nil && k.failures == 0 { // nothing shortens the pause after an error
			subscribed = k.streams.Subscribed()
		}
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
	err = k.share(ctx, &c, now)
	k.show(c, now)
	return err
}

// share takes or gives up what the shares demand, and notes it in c.
func (k *Keeper) share(ctx context.Context, c *store.Cluster, now clock.Instant) error {
	take, yield := plan(*c, k.cfg.Incarnation, now)
	if time.Now().Before(k.patient) {
		take = slices.DeleteFunc(take, func(shard int) bool { return c.Leases[shard].Incarnation != "" })
	}
	if len(take) > 0 {
		taken, err := k.leaser.Take(ctx, k.node(now), now, take)
		if err != nil {
			return err
		}
		for _, shard := range taken {
			c.Leases[shard].Incarnation = k.cfg.Incarnation
		}
	}
	if len(yield) > 0 {
		for _, shard := range yield {
			k.given[shard] = time.Now()
		}
		if err := k.leaser.Yield(ctx, k.cfg.Incarnation, yield); err != nil {
			return err
		}
		for _, shard := range yield {
			c.Leases[shard].Incarnation = ""
		}
	}
	return nil
}

// attend writes the node's row where it is time to, which renews its leases. When that comes after the leases' end, the
// others' may have ended for the same reason, a database that failed for all: they get the time to come back.
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
	if !k.attended.IsZero() && begun.Sub(k.attended) >= k.cfg.TTL {
		k.patient = time.Now().Add(k.cfg.Renew + 2*k.cfg.Look)
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

// show makes what was seen the node's picture.
func (k *Keeper) show(c store.Cluster, now clock.Instant) {
	before := k.seen()
	p := draw(c, k.cfg.Incarnation, k.cfg.Streams, k.applications(), k.holds(c, before.held), now)
	nodes := len(living(c, k.cfg.Incarnation, now))
	k.note(before, p, nodes)
	shared := k.sharesName(c, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shared = shared
	if !p.same(before) {
		k.picture = p
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// holds returns which shards this node rings: its own, and of those that it rang before what nobody else has yet, or was given
// up a moment ago, so that who takes it has the time to load.
func (k *Keeper) holds(c store.Cluster, before []int) []int {
	var held []int
	for _, l := range c.Leases {
		given, isGiven := k.given[l.Shard]
		_, had := slices.BinarySearch(before, l.Shard)
		switch {
		case l.Incarnation == k.cfg.Incarnation:
			held = append(held, l.Shard)
			delete(k.given, l.Shard)
		case had && (l.Incarnation == "" || isGiven && time.Since(given) < k.cfg.Grace):
			held = append(held, l.Shard)
		default:
			delete(k.given, l.Shard)
		}
	}
	return held
}

// note counts and logs what changed hands.
func (k *Keeper) note(before, p *picture, nodes int) {
	taken, given, lost := len(without(p.own, before.own)), 0, 0
	for _, shard := range without(before.own, p.own) {
		if _, isGiven := k.given[shard]; isGiven {
			given++
		} else {
			lost++
		}
	}
	k.metrics.saw(len(p.own), nodes, taken, given, lost)
	if taken+given+lost > 0 {
		k.log.Info("shards changed hands", "count", len(p.own), "taken", taken, "given", given, "lost", lost, "nodes", nodes)
	}
}

// without returns the shards of a that are not in b, which is sorted.
func without(a, b []int) (rest []int) {
	for _, shard := range a {
		if _, found := slices.BinarySearch(b, shard); !found {
			rest = append(rest, shard)
		}
	}
	return rest
}

// sharesName reports whether another living node has our name, and warns when that begins. One that was not seen to renew its
// leases is taken for our predecessor, which died.
func (k *Keeper) sharesName(c store.Cluster, now clock.Instant) bool {
	maps.DeleteFunc(k.namesakes, func(incarnation string, _ clock.Instant) bool {
		return !slices.ContainsFunc(c.Nodes, func(n store.Node) bool { return n.Incarnation == incarnation })
	})
	shared := false
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Name != k.cfg.Name || n.Incarnation == k.cfg.Incarnation || !n.Alive(now) {
			continue
		}
		first, known := k.namesakes[n.Incarnation]
		if !known {
			k.namesakes[n.Incarnation] = n.Expires
		}
		shared = shared || known && n.Expires > first
	}
	if shared && !k.NameShared() {
		k.log.Warn("another node has this node's name: give each its own", "node", k.cfg.Name)
	}
	return shared
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
	taken = !slices.ContainsFunc(c.Leases, func(l store.Lease) bool { return l.Incarnation == "" || l.Incarnation == self })
	return len(living(c, self, now)) == 1, taken
}

// Shards returns the shards to be loaded, sorted and not to be changed.
func (k *Keeper) Shards() []int { return k.seen().load }

// Owned returns the shards that this node has, as far as it knows, sorted and not to be changed.
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
	changeLost  = "lost" // taken by another after it expired
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
		shards: gauge("shards", "Shards that this node has."),
		nodes:  gauge("nodes", "Nodes that live, this one included."),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_preload_lease_changes_total", Help: "Shards taken, given up to even the shares, and lost to others because they were not renewed in time.",
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

func (m *keeperMetrics) saw(shards, nodes, taken, given, lost int) {
	m.shards.Set(float64(shards))
	m.nodes.Set(float64(nodes))
	m.changes.WithLabelValues(changeTaken).Add(float64(taken))
	m.changes.WithLabelValues(changeGiven).Add(float64(given))
	m.changes.WithLabelValues(changeLost).Add(float64(lost))
}
