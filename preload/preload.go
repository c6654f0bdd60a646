package preload

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Heap holds alarms that are due soon. Each loader has one share of it. shareIndex counts from 0.
type Heap interface {
	// Offer adds rows to the share. It returns the first missing row of each addressee: the first row that found no
	// room or lost its room, in this call or since the last one.
	Offer(shareIndex int, rows []store.Due) (missing []store.Due)
	// Remove drops the entries with these ids from the share.
	Remove(shareIndex int, ids []int64)
	// KeepShards drops the share's entries of shards for which wanted is false.
	KeepShards(shareIndex int, wanted func(shard int) bool)
	// TakeRechecks returns the addressees for which HasRoomFor may have become true since the last call. roomy means
	// that a route has room for all its addressees, so HasRoomFor may be true for any of them.
	TakeRechecks(shareIndex int) (addressees []store.Addressee, roomy bool)
	// HasRoomFor reports whether the share has room for an addressee's missing rows, which begin at a position. With
	// forAll it reports true only if there is room for all addressees of the same route. After false, TakeRechecks
	// returns the addressee once the result may have changed.
	HasRoomFor(shareIndex int, addressee store.Addressee, from store.Position, forAll bool) bool
	// LoaderWake returns a channel that is signalled when TakeRechecks has addressees to return, or Offer has missing
	// rows to return.
	LoaderWake(shareIndex int) <-chan struct{}
}

// Time is a lower bound of the database's clock.
type Time interface {
	AtLeast() (clock.Instant, error)
}

// Announcer tells other nodes of rows that this node committed.
type Announcer interface {
	// Announce takes committed rows. It does not block, and does not change or keep the slice.
	Announce(rows []store.Due)
}

// Config sets how far ahead the loaders read, and how often they sweep.
type Config struct {
	Loaders int           // number of loaders, each with its shards and its share of the heap; default 4
	Window  time.Duration // time ahead of now up to which loaders read; default 30s
	Page    int           // rows of each shard in a page, at most; default 256
	Sweep   time.Duration // time between two sweeps of a loader; default 1s
}

// DefaultConfig returns the defaults that each field names.
func DefaultConfig() Config {
	return Config{Loaders: 4, Window: 30 * time.Second, Page: 256, Sweep: time.Second}
}

// Validate returns the reasons why the configuration is invalid, joined; nil if it is valid.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, reason string) {
		if !ok {
			errs = append(errs, errors.New(reason))
		}
	}
	check(c.Loaders >= 1 && c.Loaders <= 64, "preload loaders must be from 1 to 64")
	check(c.Window >= 2*time.Second && c.Window <= time.Hour,
		"preload window must be from 2s to 1h: alarms due within half of it must be in memory")
	check(c.Page >= 16 && c.Page <= 10_000, "preload page must be from 16 to 10000 rows a shard")
	check(c.Sweep >= 100*time.Millisecond && c.Sweep <= time.Minute, "preload sweep must be from 100ms to 1m")
	return errors.Join(errs...)
}

// Deps are the dependencies of a Preloader.
type Deps struct {
	Loader     store.Loader
	Heap       Heap
	Time       Time
	Ownership  Ownership
	Announcer  Announcer // nil: other nodes find the rows that this node commits by their sweeps
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Preloader runs the loaders. It also takes newly committed rows: from this node's writes and rings, and from other
// nodes.
type Preloader struct {
	ownership Ownership
	time      Time
	announcer Announcer // nil: none
	loaders   []*loader
}

// New returns a Preloader. It reads nothing before Run.
func New(cfg Config, deps Deps) (*Preloader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := newMetrics(deps.Registerer)
	p := &Preloader{ownership: deps.Ownership, time: deps.Time, announcer: deps.Announcer}
	check := &emptyCheck{source: deps.Loader, shards: deps.Ownership.Shards, interval: cfg.Sweep, metrics: m,
		turn: make(chan struct{}, 1)}
	for i := range cfg.Loaders {
		p.loaders = append(p.loaders, &loader{
			cfg: cfg, number: i, source: deps.Loader, heap: deps.Heap, time: deps.Time, log: deps.Log, metrics: m,
			rings: deps.Ownership.Rings, check: check,
			wake: make(chan struct{}, 1), sparse: map[string]bool{},
		})
	}
	m.watch(deps.Registerer, p.loaders, deps.Time)
	return p, nil
}

// Run reads ahead until ctx ends.
func (p *Preloader) Run(ctx context.Context) error {
	var assigned assigner
	changed := p.ownership.Changed()
	assigned.step(p)
	var running sync.WaitGroup
	for _, l := range p.loaders {
		running.Go(func() { l.run(ctx) })
	}
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
			changed = p.ownership.Changed()
		case <-assigned.timer:
		}
		assigned.step(p)
	}
}

// gainPause is the least time between two assignments of gained applications. Each such assignment costs a read through
// the due index.
const gainPause = time.Second

// assigner gives loaders their shards, and gained applications at most once every gainPause. Run's goroutine owns it.
type assigner struct {
	pending   []string         // gained applications that the loaders were not given yet
	lastGiven time.Time        // when the loaders were last given applications
	timer     <-chan time.Time // signalled when the loaders may be given pending; nil while pending is empty
}

// step gives the loaders their shards, and the gained applications if gainPause has passed.
func (a *assigner) step(p *Preloader) {
	gained, applications := p.ownership.Gained() // called before Shards, so that Shards has all gained shards
	a.pending = append(a.pending, applications...)
	var given []string
	if wait := gainPause - time.Since(a.lastGiven); len(a.pending) > 0 && wait > 0 {
		a.timer = time.After(wait)
	} else {
		slices.Sort(a.pending)
		given, a.pending, a.timer = slices.Compact(a.pending), nil, nil
	}
	if len(given) > 0 {
		a.lastGiven = time.Now()
	}
	p.assign(assignment{shards: p.ownership.Shards(), gained: gained, applications: given})
}

// assign gives every loader its part of the assignment.
func (p *Preloader) assign(a assignment) {
	shards, gained := p.byLoader(a.shards), p.byLoader(a.gained)
	for i, l := range p.loaders {
		l.assign(assignment{shards: shards[i], gained: gained[i], applications: a.applications})
	}
}

// byLoader divides shards among the loaders.
func (p *Preloader) byLoader(shards []int) [][]int {
	parts := make([][]int, len(p.loaders))
	for _, s := range shards {
		i := store.ShareOf(s, len(parts))
		parts[i] = append(parts[i], s)
	}
	return parts
}

// Owned returns the shards that this node owns.
func (p *Preloader) Owned() []int { return p.ownership.Owned() }

// Committed takes the decisions that this node just committed. It removes the changed alarms from the heap, offers
// their new rows before the watermarks, and announces the new rows to the other nodes.
func (p *Preloader) Committed(written []clock.Decision) {
	due := make([]store.Due, 0, len(written))
	gone := make([][]int64, len(p.loaders))
	for i := range written {
		d := &written[i]
		if !d.Writes() {
			continue
		}
		if d.Verdict != clock.Create {
			number := store.ShareOf(d.Alarm.Shard, len(p.loaders))
			gone[number] = append(gone[number], d.Alarm.ID)
		}
		if d.Alarm.NextTryTime != clock.NoInstant {
			due = append(due, store.Due{
				ID: d.Alarm.ID, NextTryTime: d.Alarm.NextTryTime, Rank: store.RankOf(&d.Alarm.Content),
				Shard:       d.Alarm.Shard,
				Application: d.Alarm.Application,
			})
		}
	}
	p.distribute(due, gone)
	p.announce(due)
}

// Offer takes rows that are due again because this node rang them without success. It offers them to the heap and
// announces them to the other nodes.
func (p *Preloader) Offer(rows []store.Due) {
	p.distribute(rows, make([][]int64, len(p.loaders)))
	p.announce(rows)
}

// Take takes rows that another node committed, and offers the rows of this node's shards to the heap.
func (p *Preloader) Take(rows []store.Due) {
	p.distribute(rows, make([][]int64, len(p.loaders)))
}

// distribute gives each loader the committed rows and removed ids of its shards. gone has one element for each loader.
func (p *Preloader) distribute(rows []store.Due, gone [][]int64) {
	due := make([][]store.Due, len(p.loaders))
	for _, d := range rows {
		number := store.ShareOf(d.Shard, len(p.loaders))
		due[number] = append(due[number], d)
	}
	for i, l := range p.loaders {
		l.takeCommitted(due[i], gone[i])
	}
}

func (p *Preloader) announce(rows []store.Due) {
	if p.announcer != nil && len(rows) > 0 {
		p.announcer.Announce(rows)
	}
}

// Rewind lets the loaders read all due alarms once more. Refresh calls it while the database's time is unknown, because
// it then cannot tell which alarms are recent.
func (p *Preloader) Rewind() {
	for _, l := range p.loaders {
		l.rewind()
	}
}

// Refresh lets the loaders read the recent and the coming alarms once more. It is for moments when wake-ups may have
// been lost. Lost wake-ups with older alarms need no read: the sweeps have found these alarms.
func (p *Preloader) Refresh() {
	now, err := p.time.AtLeast()
	if err != nil {
		p.Rewind()
		return
	}
	for _, l := range p.loaders {
		l.progress.refresh(recentFrom(now))
		l.poke()
	}
}
