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

// Heap is where alarms go that are due soon. Shares are numbered from 0, one a loader.
type Heap interface {
	// Offer takes rows and returns what has no place, of these or of what was offered before: the first row of each
	// application of which something is missing.
	Offer(to int, rows []store.Due) (missing []store.Due)
	Remove(from int, ids []int64)
	Keep(in int, wanted func(shard int) bool)
	// Wants reports whether the share has use for an application's rows from a position on that had no place.
	Wants(of int, application string, from store.Position) bool
	// Drained is signalled when Wants may have become true or something is missing that Offer has not told.
	Drained(of int) <-chan struct{}
}

// Time is a lower bound of the database's clock.
type Time interface {
	Now() (clock.Instant, error)
}

// Config says how far and how often is read ahead.
type Config struct {
	Loaders int           // goroutines, each with its part of the shards and of the heap; default 4
	Window  time.Duration // how far ahead is read; default 30s
	Page    int           // rows a shard and page, at most; default 256
	Sweep   time.Duration // between two looks for what was missed; default 1s
}

// DefaultConfig returns the defaults that each field names.
func DefaultConfig() Config {
	return Config{Loaders: 4, Window: 30 * time.Second, Page: 256, Sweep: time.Second}
}

// Validate returns all reasons against the configuration, joined, or nil.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, reason string) {
		if !ok {
			errs = append(errs, errors.New(reason))
		}
	}
	check(c.Loaders >= 1 && c.Loaders <= 64, "preload loaders must be from 1 to 64")
	check(c.Window >= 2*time.Second && c.Window <= time.Hour, "preload window must be from 2s to 1h: what is due within half of it must be in memory")
	check(c.Page >= 16 && c.Page <= 10_000, "preload page must be from 16 to 10000 rows a shard")
	check(c.Sweep >= 100*time.Millisecond && c.Sweep <= time.Minute, "preload sweep must be from 100ms to 1m")
	return errors.Join(errs...)
}

// Deps is what the Preloader works with.
type Deps struct {
	Loader     store.Loader
	Heap       Heap
	Time       Time
	Ownership  Ownership
	Log        *slog.Logger
	Registerer prometheus.Registerer
}

// Preloader runs the loaders and takes wake-ups from those who commit.
type Preloader struct {
	cfg       Config
	ownership Ownership
	time      Time
	loaders   []*loader
	metrics   *metrics
	sender    *sender // nil: other nodes are not told
}

// New returns a Preloader; nothing is read before Run.
func New(cfg Config, deps Deps) (*Preloader, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := newMetrics(deps.Registerer)
	p := &Preloader{cfg: cfg, ownership: deps.Ownership, time: deps.Time, metrics: m}
	for i := range cfg.Loaders {
		p.loaders = append(p.loaders, &loader{
			cfg: cfg, number: i, source: deps.Loader, heap: deps.Heap, time: deps.Time, log: deps.Log, metrics: m,
			wanted: deps.Ownership.Wanted,
			wake:   make(chan struct{}, 1),
		})
	}
	m.watch(deps.Registerer, p.loaders, deps.Time)
	return p, nil
}

// SendBy has the courier tell other nodes what is committed here and is theirs to ring. To be called before Run; without it
// they find it by their sweeps.
func (p *Preloader) SendBy(c Courier) { p.sender = newSender(c, p.metrics) }

// Run reads ahead until ctx ends.
func (p *Preloader) Run(ctx context.Context) error {
	changed := p.ownership.Changed()
	p.assign(p.ownership.Shards())
	var running sync.WaitGroup
	for _, l := range p.loaders {
		running.Go(func() { l.run(ctx) })
	}
	if p.sender != nil {
		running.Go(func() { p.sender.run(ctx) })
	}
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
		changed = p.ownership.Changed()
		p.assign(p.ownership.Shards())
	}
}

// assign gives every loader its part of the shards, and has it read from the beginning: what is wanted of them may have changed.
func (p *Preloader) assign(shards []int) {
	parts := make([][]int, len(p.loaders))
	for _, s := range shards {
		parts[s%len(parts)] = append(parts[s%len(parts)], s)
	}
	for i, l := range p.loaders {
		l.assign(parts[i])
	}
}

// Owned returns the shards that this node looks after.
func (p *Preloader) Owned() []int { return p.ownership.Owned() }

// Wake takes what was just committed: it offers what lies before the watermarks, drops what moved away, and tells other
// nodes what is theirs to ring.
func (p *Preloader) Wake(written []clock.Decision) {
	due := make([]store.Due, 0, len(written))
	gone := make([][]int64, len(p.loaders))
	for i := range written {
		d := &written[i]
		if !d.Writes() {
			continue
		}
		if d.Verdict != clock.Create {
			part := d.Alarm.Shard % len(p.loaders)
			gone[part] = append(gone[part], d.Alarm.ID)
		}
		if d.Alarm.NextTryTime != clock.NoInstant {
			due = append(due, store.Due{
				ID: d.Alarm.ID, NextTryTime: d.Alarm.NextTryTime, Rank: store.Rank(d.Alarm.Priority), Shard: d.Alarm.Shard,
				Application: d.Alarm.Application,
			})
		}
	}
	p.take(due, gone)
	p.tell(due)
}

// Offer takes rows that are due again, and tells other nodes of those that are theirs to ring.
func (p *Preloader) Offer(rows []store.Due) {
	p.take(rows, make([][]int64, len(p.loaders)))
	p.tell(rows)
}

// Receive takes a wake-up that another node sent: it offers the rows that are rung here. An error says that it was none.
func (p *Preloader) Receive(body []byte) error {
	rows, err := decodeWake(body)
	if err != nil {
		return err
	}
	if _, here := slices.BinarySearch(p.ownership.Shards(), rows[0].Shard); here {
		p.metrics.wakesReceived.Add(float64(len(rows)))
		p.take(rows, make([][]int64, len(p.loaders)))
	}
	return nil
}

// take gives each loader its part.
func (p *Preloader) take(rows []store.Due, gone [][]int64) {
	due := make([][]store.Due, len(p.loaders))
	for _, d := range rows {
		part := d.Shard % len(p.loaders)
		due[part] = append(due[part], d)
	}
	for i, l := range p.loaders {
		l.take(due[i], gone[i])
	}
}

// wakeMargin is by how much other nodes' watermarks may be further than this one's window: they know the time better, or later.
const wakeMargin = time.Second

// tell has the sender tell other nodes of the rows that they ring and may have read past.
func (p *Preloader) tell(rows []store.Due) {
	if p.sender == nil || len(rows) == 0 {
		return
	}
	now, err := p.time.Now()
	if err != nil {
		return
	}
	horizon, owned := now.Add(p.cfg.Window+wakeMargin), p.ownership.Owned()
	var others []store.Due
	for _, d := range rows {
		_, own := slices.BinarySearch(owned, d.Shard)
		if here := own && p.ownership.Wanted(d.Shard, d.Application); !here && d.NextTryTime < horizon {
			others = append(others, d)
		}
	}
	p.sender.push(others)
}

// Rewind has everything that is due read once more, for when wake-ups may have been lost.
func (p *Preloader) Rewind() {
	for _, l := range p.loaders {
		l.rewind()
	}
}
