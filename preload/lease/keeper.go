package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

const (
	// nodeMemory is how long the row of a dead node stays in the database at least. Each node deletes such rows at this
	// interval.
	nodeMemory = time.Minute
	// subscribedPause is the least time between two writes of the node's row that a change of subscribers causes, and
	// between two such looks. The first change after a quiet second is written at once.
	subscribedPause = time.Second
	// A look and its writes take some round trips to the database. Their time is bounded by the least timeout, and by
	// more after a look that did not end in time.
	leastTimeout, longestTimeout = 2 * time.Second, 16 * time.Second
	// notableFailure is how long looks fail before Failing says so.
	notableFailure = 5 * time.Second
)

// Time is a lower bound of the database's clock.
type Time interface {
	AtLeast() (clock.Instant, error)
	// FollowClosely demands frequent samples of the clock for d.
	FollowClosely(d time.Duration)
}

// Streams knows the subscribers and workers of this node.
type Streams interface {
	// Applications returns the lines of the announcements of this node (Announcement), sorted.
	Applications() []string
	// ApplicationsChanged returns a channel of capacity 1. It is signalled when the result of Applications changes.
	ApplicationsChanged() <-chan struct{}
}

// Deps are the dependencies of a Keeper.
type Deps struct {
	Leaser  store.Leaser
	Time    Time
	Address func() string // address of this node's HTTP server; "" until it listens
	Streams Streams       // subscribers of this node; nil without Config.Streams
	// Abilities are the abilities that this process may lack, beside AbilityRead.
	Abilities []string
	// Lacks returns the abilities that this process lacks now, sorted; nil when it has all of them. It does not block.
	// A nil func means that the process always has all of them.
	Lacks func() []string
	// Why returns why this process lacks the ability, for the log; "" if it does not know. It does not block. A nil
	// func knows nothing.
	Why func(ability string) string
	// Settings returns the number of changes of settings that this process has confirmed (store.Node.Settings). It does
	// not block. A nil func means that the process reports none.
	Settings func() int64
	// Joined is called after the first write of the node's row. It must not block. Nil: nobody wants to know.
	Joined     func()
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Keeper keeps the leases of one node in a cluster. It renews them, and takes and gives up shards so that the nodes
// have even shares. At each look it reads the nodes and leases of the cluster. It tells the loaders which shards this
// node loads and which alarms it rings.
type Keeper struct {
	cfg     Config
	leaser  store.Leaser
	time    Time
	address func() string
	streams Streams
	lacks   func() []string
	why     func(ability string) string

	settings func() int64
	joined   func()

	log     *slog.Logger
	metrics metrics

	// owned by the goroutine of Run
	started             clock.Instant // database time of the first write of the node's row; clock.NoInstant: none yet
	lastHeartbeat       time.Time     // last write of the node's row, which renews its leases; zero: none yet
	lastForget          time.Time     // last attempt to delete dead nodes' rows; zero: none yet
	writtenApplications []string      // lines of this node's announcements, as last written to the node's row; sorted
	lastSubscriberWrite time.Time     // last write of the row because the subscribers changed
	lastSubscriberLook  time.Time     // last look because the subscribers changed
	abilities           abilities
	renewals            renewalWatch
	writtenSettings     int64                    // confirmed changes of settings, as last written to the node's row
	writtenLacks        []string                 // missing abilities, as last written to the node's row; sorted
	warned              []string                 // missing abilities that the log has named
	yieldsFor           []string                 // missing abilities for which the node yields its shards, as of the last look; sorted
	yieldedAt           map[int]time.Time        // by shard, when this node gave it up; entries go when the node stops ringing the shard
	noTakeoverBefore    time.Time                // until then only free shards are taken, none with an expired lease; zero: no such pause
	namesakes           map[string]clock.Instant // by incarnation with this node's name: its Expires when this node first saw it
	failures            int                      // failed looks since the last successful look
	timeout             time.Duration            // of the next look
	took                time.Duration            // time of the last successful look
	untaken             error                    // why the last look took less than planned; nil if it did not
	alone               bool                     // as of the last look no other node lives, and this node owns all shards

	mu         sync.Mutex
	membership *membership   // as of the last look
	changed    chan struct{} // closed when membership changes, and then replaced
	nameShared bool          // another living node has this node's name
	limited    []Limited     // living nodes that lack abilities, as of the last look
	gains      gains
	refused    error // why the database refuses this build; nil while it accepts the build

	lastWell time.Time // of the last successful look, or the begin of Run
	failure  error     // of the last look; nil if it succeeded
}

// New returns a Keeper. It owns no shard before Run.
func New(cfg Config, deps Deps) (*Keeper, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Why == nil {
		deps.Why = func(string) string { return "" }
	}
	if deps.Lacks == nil {
		deps.Lacks = func() []string { return nil }
	}
	if deps.Settings == nil {
		deps.Settings = func() int64 { return store.SettingsUnknown }
	}
	if deps.Joined == nil {
		deps.Joined = func() {}
	}
	return &Keeper{
		cfg: cfg, leaser: deps.Leaser, time: deps.Time, address: deps.Address, streams: deps.Streams, lacks: deps.Lacks,
		why: deps.Why, settings: deps.Settings, joined: deps.Joined, log: deps.Log,
		metrics: newMetrics(deps.Registerer, deps.Abilities), started: clock.NoInstant, yieldedAt: map[int]time.Time{},
		namesakes:  map[string]clock.Instant{},
		membership: &membership{self: cfg.Incarnation}, changed: make(chan struct{}), timeout: leastTimeout,
	}, nil
}

// Run keeps the leases until ctx ends. Then it gives them up, and returns nil when other nodes have taken them or after
// Grace. When the database demands a newer build, Run gives the leases up likewise and returns store.ErrOldBuild. The
// process must then drain.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	k.noteLook(nil)
	for {
		timer.Reset(k.step(ctx))
		if err := k.Refused(); err != nil {
			k.log.Error("the database demands a newer build: this node drains", "err", err)
			k.leave(context.WithoutCancel(ctx))
			return err
		}
		var applicationsChanged <-chan struct{}
		if k.streams != nil && k.failures == 0 && time.Since(k.lastSubscriberLook) >= subscribedPause { // nothing shortens the pause after an error
			applicationsChanged = k.streams.ApplicationsChanged()
		}
		select {
		case <-ctx.Done():
			k.leave(context.WithoutCancel(ctx))
			return nil
		case <-applicationsChanged:
			k.lastSubscriberLook = time.Now()
		case <-timer.C:
		}
	}
}

// step looks once and returns how long to wait before the next look.
func (k *Keeper) step(ctx context.Context) time.Duration {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	err := k.keep(ctx)
	if err == nil || errors.Is(err, context.Canceled) {
		k.noteLook(k.untaken)
		k.took = time.Since(begun)
		k.failures, k.timeout = 0, min(max(leastTimeout, 4*k.took), longestTimeout)
		if k.alone {
			return max(0, k.cfg.Renew-time.Since(k.lastHeartbeat))
		}
		return k.cfg.Look
	}
	k.noteLook(err)
	if ctx.Err() != nil {
		k.timeout = min(2*k.timeout, longestTimeout)
	}
	k.abilities.restart(time.Now())
	k.metrics.errors.Inc()
	level := slog.LevelDebug // of repeated failures only the first is a warning
	if k.failures == 0 {
		level = slog.LevelWarn
	}
	k.log.Log(ctx, level, "could not keep the leases", "err", err)
	k.failures++
	return clock.Backoff{First: k.cfg.Look, Last: k.cfg.Renew}.Wait(k.failures)
}

// noteLook notes the result of a look for Failing.
func (k *Keeper) noteLook(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failure = err; err == nil {
		k.lastWell = time.Now()
	}
}

// Failing returns why the node has not been able to keep or take its leases for some seconds; nil if it has.
func (k *Keeper) Failing() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if since := time.Since(k.lastWell); k.failure != nil && since >= notableFailure {
		return fmt.Errorf("for %s this node could not keep or take its leases; it only rings the shards that it has: %w", since.Round(time.Second), k.failure)
	}
	return nil
}

// keep is one look: it renews the leases if it is time to, reads the nodes and leases, and takes or yields shards to
// even the shares.
func (k *Keeper) keep(ctx context.Context) error {
	if !k.alone { // else a node that sees a step of the clock before the others would take their shards
		k.time.FollowClosely(2 * k.cfg.Look)
	}
	now, err := k.time.AtLeast()
	if err != nil {
		return err
	}
	k.updateAbilities()
	if err := k.renew(ctx, now); err != nil {
		return err
	}
	c, err := k.leaser.Cluster(ctx)
	if err != nil {
		return err
	}
	if err := store.CheckBuild(c.OldestBuild); err != nil {
		k.refuse(err)
		return nil
	}
	takeableUntil := k.renewals.expire(&c, k.cfg.Incarnation, now, time.Now(), 2*k.cfg.TTL)
	err = k.balance(ctx, &c, now, takeableUntil)
	k.updateMembership(c, now)
	return err
}

// balance takes or yields shards as planned, and changes c accordingly. Leases that end at takeableUntil or before may
// be taken.
func (k *Keeper) balance(ctx context.Context, c *store.Cluster, now, takeableUntil clock.Instant) error {
	take, yield := k.planMoves(*c, now)
	k.untaken = nil
	if time.Now().Before(k.noTakeoverBefore) {
		take = slices.DeleteFunc(take, func(shard int) bool { return c.Leases[shard].Incarnation != "" })
	}
	if len(take) > 0 {
		taken, err := k.leaser.Take(ctx, k.node(now), takeableUntil, take)
		if err != nil {
			return err
		}
		for _, shard := range taken {
			c.Leases[shard].Incarnation = k.cfg.Incarnation
		}
		if n := len(take) - len(taken); n > 0 { // another node was faster, or their rows are locked: then the next looks do not get them either
			k.untaken = fmt.Errorf("%d of %d free shards could not be taken: a session of the database may lock their rows in the table of leases", n, len(take))
		}
	}
	if len(yield) > 0 {
		for _, shard := range yield {
			k.yieldedAt[shard] = time.Now()
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

// renew writes the node's row if it is time to; the write renews the node's leases. A renewal after the leases' end
// may mean that the database failed for all nodes. Then the other nodes get time to renew before this node takes their
// shards.
func (k *Keeper) renew(ctx context.Context, now clock.Instant) error {
	subscribed, announced, settings := k.applications(), k.abilities.announced(), k.settings()
	subscribersChanged := !slices.Equal(subscribed, k.writtenApplications) &&
		time.Since(k.lastSubscriberWrite) >= subscribedPause
	if !k.lastHeartbeat.IsZero() && time.Since(k.lastHeartbeat) < k.cfg.Renew && !subscribersChanged &&
		slices.Equal(announced, k.writtenLacks) && settings == k.writtenSettings {
		return nil // within subscribedPause, changed subscribers wait for the next renewal
	}
	if k.started == clock.NoInstant {
		k.started = now
	}
	begun := time.Now()
	forget, forgets := clock.Instant(0), begun.Sub(k.lastForget) >= nodeMemory
	if forgets {
		forget = max(0, now.Add(-nodeMemory))
		k.lastForget = begun // even if the deletion fails: the next renewal must not fail for it too
	}
	if err := k.leaser.Attend(ctx, k.node(now), forget); err != nil {
		return err
	}
	if !k.lastHeartbeat.IsZero() && begun.Sub(k.lastHeartbeat) >= k.cfg.TTL {
		k.noTakeoverBefore = time.Now().Add(k.cfg.Renew + 2*k.cfg.Look)
	}
	if subscribersChanged {
		k.lastSubscriberWrite = begun
	}
	if k.lastHeartbeat.IsZero() {
		k.joined()
	}
	k.lastHeartbeat, k.writtenApplications, k.writtenLacks, k.writtenSettings = begun, subscribed, announced, settings
	return nil
}

func (k *Keeper) applications() []string {
	if k.streams == nil {
		return nil
	}
	return k.streams.Applications()
}

// node returns the node's row as it is now.
func (k *Keeper) node(now clock.Instant) store.Node {
	return store.Node{
		Incarnation: k.cfg.Incarnation, Name: k.cfg.Name, Address: k.address(), Version: k.cfg.Version,
		Started: k.started, Expires: now.Add(max(k.cfg.TTL, 3*k.took)), Applications: k.applications(),
		Lacks: k.abilities.announced(), Settings: k.settings(), SecretKeys: k.cfg.SecretKeys,
	}
}

// updateMembership derives the node's membership from c, logs what changed, and closes the changed channel if anything
// did.
func (k *Keeper) updateMembership(c store.Cluster, now clock.Instant) {
	before := k.currentMembership()
	after := newMembership(c, k.cfg.Incarnation, k.cfg.Streams, k.applications(), k.servingShards(c, before.serving),
		now)
	nodes := len(living(c, k.cfg.Incarnation, nil, now))
	k.alone = nodes == 1 && len(after.owned) == len(c.Leases)
	k.reportChanges(before, after, nodes)
	nameShared := k.sharesName(c, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.nameShared, k.limited = nameShared, k.limitedNodes(c, now)
	if !after.equal(before) {
		k.gains.add(before, after)
		k.membership = after
		close(k.changed)
		k.changed = make(chan struct{})
	}
}

// Refused returns why the database refuses this build (a store.ErrOldBuild); nil while it accepts the build.
func (k *Keeper) Refused() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refused
}

func (k *Keeper) refuse(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.refused = err
}

// Shards returns the shards that this node loads, sorted. The caller must not change the slice.
func (k *Keeper) Shards() []int { return k.currentMembership().loaded }

// Owned returns the shards that this node owned at its last look, sorted. The caller must not change the slice.
func (k *Keeper) Owned() []int { return k.currentMembership().owned }

// Rings reports whether this node rings the addressee's alarms of the shard.
func (k *Keeper) Rings(shard int, to store.Addressee) bool {
	return k.currentMembership().rings(shard, to)
}

// HasClients reports whether a living node has subscribers or workers for the addressee.
func (k *Keeper) HasClients(to store.Addressee) bool {
	return len(k.currentMembership().clientsOf(to)) > 0
}

// Gained returns the shards and applications that this node rings since the last call, both sorted. The loaders must
// read them.
func (k *Keeper) Gained() (shards []int, applications []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gains.take()
}

// Changed returns a channel that is closed when Shards, Owned or Rings changes.
func (k *Keeper) Changed() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

// NameShared reports whether another living node has this node's name.
func (k *Keeper) NameShared() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nameShared
}

// currentMembership returns the membership as of the last look.
func (k *Keeper) currentMembership() *membership {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.membership
}
