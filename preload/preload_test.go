package preload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeTable is a store.Loader with its rows in memory. Each read calls meanwhile after it has taken its rows and before
// it returns them.
type fakeTable struct {
	meanwhile func() // nil: nothing

	mu       sync.Mutex
	wait     time.Duration // a read lasts so long, or until its context ends
	rows     map[int64]store.Due
	fail     bool // reads fail
	reads    int
	asked    []store.DueQuery // queries of the reads
	rowsRead int
}

func (f *fakeTable) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	f.mu.Lock()
	f.reads++
	f.asked = append(f.asked, q)
	var rows []store.Due
	for _, d := range f.rows {
		if slices.Contains(q.Shards, d.Shard) && !d.Position().Before(q.From) && d.Position().Before(q.Until) {
			rows = append(rows, d)
		}
	}
	fail, wait := f.fail, f.wait
	f.mu.Unlock()
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return store.DuePage{}, ctx.Err()
		}
	}
	sortDue(rows)
	rows = scanned(&q, rows)
	count := map[int]int{}
	rows = slices.DeleteFunc(rows, func(d store.Due) bool { count[d.Shard]++; return count[d.Shard] > q.Limit })
	f.mu.Lock()
	f.rowsRead += len(rows)
	f.mu.Unlock()
	if f.meanwhile != nil {
		f.meanwhile()
	}
	if fail {
		return store.DuePage{}, errors.New("the read fails")
	}
	return store.NewDuePage(q, rows), ctx.Err()
}

// set makes later reads last for d.
func (f *fakeTable) set(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wait = d
}

// scanned returns the rows that a filtered read lets through. Beyond the query's scan limit it ends the query earlier,
// like a store.
func scanned(q *store.DueQuery, rows []store.Due) []store.Due {
	if !q.Filtered() {
		return rows
	}
	count := map[int]int{}
	for _, d := range rows {
		if count[d.Shard]++; count[d.Shard] == q.ScanLimit+1 {
			q.EndBefore([]store.Due{d})
		}
	}
	return slices.DeleteFunc(rows,
		func(d store.Due) bool { return !q.Admits(d.Addressee()) || !d.Position().Before(q.Until) })
}

// sortDue sorts rows in the order of the due index.
func sortDue(rows []store.Due) {
	slices.SortFunc(rows, func(a, b store.Due) int {
		return cmp.Or(cmp.Compare(a.NextTryTime, b.NextTryTime), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
}

// fakeHeap is a Heap that takes rows until it is full. It leaves out the rows of restricted applications.
type fakeHeap struct {
	capacity   int
	loaders    int
	loaderWake chan struct{}

	mu         sync.Mutex
	rows       map[int64]store.Due
	restricted map[string]bool
}

func newFakeHeap(capacity int) *fakeHeap {
	return &fakeHeap{capacity: capacity, loaderWake: make(chan struct{}, 1), rows: map[int64]store.Due{},
		restricted: map[string]bool{}}
}

func (h *fakeHeap) Offer(_ int, rows []store.Due) []store.Due {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := map[store.Addressee]store.Due{}
	for _, d := range rows {
		_, known := h.rows[d.ID]
		if known || len(h.rows) < h.capacity && !h.restricted[d.Application] {
			h.rows[d.ID] = d
		} else if m, ok := missing[d.Addressee()]; !ok || d.Position().Before(m.Position()) {
			missing[d.Addressee()] = d
		}
	}
	var out []store.Due
	for _, d := range missing {
		out = append(out, d)
	}
	return out
}

func (h *fakeHeap) Remove(_ int, ids []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		delete(h.rows, id)
	}
}

func (h *fakeHeap) KeepShards(shareIndex int, wanted func(int) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, d := range h.rows {
		if d.Shard%h.loaders == shareIndex && !wanted(d.Shard) {
			delete(h.rows, id)
		}
	}
}

func (*fakeHeap) TakeRechecks(int) (addressees []store.Addressee, roomy bool) { return nil, true }

func (h *fakeHeap) HasRoomFor(_ int, to store.Addressee, _ store.Position, _ bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.restricted[to.Application] && len(h.rows) <= h.capacity/2
}

func (h *fakeHeap) LoaderWake(int) <-chan struct{} { return h.loaderWake }

func (h *fakeHeap) get(id int64) (store.Due, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.rows[id]
	return d, ok
}

// entriesOf returns the entries of the given shards.
func (h *fakeHeap) entriesOf(shards []int) map[int64]store.Due {
	h.mu.Lock()
	defer h.mu.Unlock()
	rows := maps.Clone(h.rows)
	maps.DeleteFunc(rows, func(_ int64, d store.Due) bool { return !slices.Contains(shards, d.Shard) })
	return rows
}

// fakeTime is a Time that changes only by add.
type fakeTime struct {
	mu  sync.Mutex
	now clock.Instant
}

func (f *fakeTime) AtLeast() (clock.Instant, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, nil
}

func (f *fakeTime) add(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// rig is a Preloader with fake dependencies.
type rig struct {
	*Preloader
	announced recordingAnnouncer
	table     *fakeTable
	heap      *fakeHeap
	time      *fakeTime
	reg       *prometheus.Registry
}

// rigApplications are the applications of the rig's alarms, by id modulo 4.
var rigApplications = []string{"a", "a", "b", "c"}

// rigNames is what the rig's alarms name, by id modulo 6.
var rigNames = []clock.Content{{}, {}, {}, {Target: clock.TargetStream}, {Target: clock.TargetPull},
	{Target: clock.TargetWebhook, Destination: clock.Destination{Name: "n", Number: 3}}}

// rigContent returns the content of an alarm of the rig.
func rigContent(id int64) clock.Content {
	c := rigNames[id%6]
	c.Priority = int(id % 10)
	return c
}

func newRig(t interface {
	Fatalf(format string, args ...any)
}, cfg Config, capacity int, owner Ownership) *rig {
	r := &rig{
		table: &fakeTable{rows: map[int64]store.Due{}}, heap: newFakeHeap(capacity), time: &fakeTime{now: 1_000_000},
		reg: prometheus.NewRegistry(),
	}
	r.heap.loaders = cfg.Loaders
	var err error
	r.Preloader, err = New(cfg, Deps{
		Loader: r.table, Heap: r.heap, Time: r.time, Ownership: owner, Announcer: &r.announced,
		Log: slog.New(slog.DiscardHandler), Registerer: r.reg,
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

// write commits a change of an alarm and wakes the preloader. The alarm becomes due at the given time, or ends if that
// is NoInstant. The id determines shard, application, target and priority.
func (r *rig) write(id int64, due clock.Instant) {
	content := rigContent(id)
	d := store.Due{ID: id, NextTryTime: due, Rank: store.RankOf(&content), Shard: int(id % 3),
		Application: rigApplications[id%4]}
	verdict := clock.Replace
	r.table.mu.Lock()
	if _, known := r.table.rows[id]; !known {
		verdict = clock.Create
	}
	if r.table.rows[id] = d; due == clock.NoInstant {
		verdict = clock.Disarm
		delete(r.table.rows, id)
	}
	r.table.mu.Unlock()
	r.Committed([]clock.Decision{{Verdict: verdict, Alarm: clock.Alarm{
		ID: id, Shard: d.Shard, Key: clock.Key{Application: d.Application},
		Content: content,
		RingRow: clock.RingRow{NextTryTime: due},
	}}})
}

// checkHeap returns an error if the heap lacks the current version of a row before the watermark. Rows in gaps, rows of
// applications that are behind and rows that other nodes ring may be missing.
func (r *rig) checkHeap() error {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for id, d := range r.table.rows {
		if _, inHeap := r.heap.get(id); !slices.Contains(r.ownership.Shards(), d.Shard) {
			if inHeap {
				return fmt.Errorf("%+v of another node's shard is in the heap", d)
			}
			continue
		}
		p := &r.loaders[d.Shard%len(r.loaders)].progress
		p.mu.Lock()
		skipped := p.behind.skippedFrom[d.Addressee()]
		watermark, unread := p.watermark, slices.ContainsFunc(p.gaps, func(g gap) bool {
			return slices.Contains(g.shards, d.Shard) && !d.Position().Before(g.from) && d.Position().Before(g.until)
		})
		p.mu.Unlock()
		if !r.ownership.Rings(d.Shard, d.Addressee()) {
			continue
		}
		entry, found := r.heap.get(id)
		switch {
		case found && entry != d:
			return fmt.Errorf("%+v is in the heap as %+v", d, entry)
		case !found && d.Position().Before(watermark) && !unread &&
			(skipped == nil || d.Position().Before(skipped.from)):
			return fmt.Errorf("%+v is lost: watermark %+v, behind %+v", d, watermark, skipped)
		}
	}
	return nil
}

// endedInHeap returns the ids of ended alarms that are in the heap. A read that overlaps a ring may bring in an ended
// alarm, which claims skip; in these tests no ring ends an alarm during a read.
func (r *rig) endedInHeap() (ids []int64) {
	for id := range r.heap.rows {
		if _, ok := r.table.rows[id]; !ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// pop takes up to limit due alarms out of the heap and ends them, like rings.
func (r *rig) pop(limit int) {
	now, _ := r.time.AtLeast()
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	r.heap.mu.Lock()
	defer r.heap.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.heap.rows)) {
		if d := r.heap.rows[id]; d.NextTryTime <= now && limit > 0 {
			limit--
			delete(r.heap.rows, id)
			if r.table.rows[id] == d { // else the entry is outdated, and a claim skips it
				delete(r.table.rows, id)
			}
		}
	}
	select {
	case r.heap.loaderWake <- struct{}{}:
	default:
	}
}

// retry takes up to limit due alarms out of the heap and makes them due a second from now, like rings that fail.
func (r *rig) retry(limit int) {
	now, _ := r.time.AtLeast()
	var again []store.Due
	r.table.mu.Lock()
	r.heap.mu.Lock()
	for _, id := range slices.Sorted(maps.Keys(r.heap.rows)) {
		if d := r.heap.rows[id]; d.NextTryTime <= now && len(again) < limit {
			delete(r.heap.rows, id)
			d.NextTryTime = now + 1000
			r.table.rows[id] = d
			again = append(again, d)
		}
	}
	r.heap.mu.Unlock()
	r.table.mu.Unlock()
	r.Offer(again)
}

func testConfig() Config {
	cfg := DefaultConfig()
	cfg.Page, cfg.Window = 16, 10*time.Second
	return cfg
}

func drawShards(t *rapid.T) []int {
	return [][]int{{}, {0}, {1, 2}, {0, 2}, {0, 1, 2}}[rapid.IntRange(0, 4).Draw(t, "shards")]
}

// At no time does the heap lack the current version of a committed row before the watermark. Some commits happen after
// a read has taken its rows and before it ends.
func TestRowsBeforeWatermarkAreInHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.Loaders = rapid.IntRange(1, 3).Draw(t, "loaders")
		o := &fakeOwnership{changed: make(chan struct{})}
		r := newRig(t, cfg, rapid.SampledFrom([]int{1, 10, 50, 10_000}).Draw(t, "capacity"), o)
		assign := func(shards []int) {
			o.set(shards...)
			gained, applications := o.Gained()
			r.assign(assignment{shards, gained, applications})
		}
		changeRings := func(t *rapid.T) {
			o.change(func() { o.rungElsewhere = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "rung elsewhere") })
			assign(o.Shards())
		}
		assign([]int{0, 1, 2})
		write := func(t *rapid.T) {
			now, _ := r.time.AtLeast()
			due := now + clock.Instant(rapid.IntRange(-5000, 20_000).Draw(t, "due"))
			if rapid.IntRange(0, 4).Draw(t, "cancel") == 0 {
				due = clock.NoInstant
			}
			r.write(rapid.Int64Range(1, 120).Draw(t, "id"), due)
		}
		r.table.meanwhile = func() {
			for range rapid.IntRange(0, 3).Draw(t, "meanwhile") {
				write(t)
			}
			r.retry(rapid.IntRange(0, 3).Draw(t, "retries"))
			switch rapid.IntRange(0, 20).Draw(t, "rewind") {
			case 0:
				r.Rewind()
			case 1:
				assign(drawShards(t))
			case 2:
				changeRings(t)
			case 3:
				r.Refresh()
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": write,
			"burst": func(t *rapid.T) {
				for range 40 {
					write(t)
				}
			},
			"read": func(t *rapid.T) {
				l := rapid.SampledFrom(r.loaders).Draw(t, "loader")
				if rapid.Bool().Draw(t, "sweep") {
					l.lastSweep = time.Time{}
				}
				_, _ = l.read(context.Background())
			},
			"pop": func(t *rapid.T) { r.pop(rapid.IntRange(1, 30).Draw(t, "limit")) },
			"time": func(t *rapid.T) {
				r.time.add(time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond)
			},
			"set back": func(t *rapid.T) {
				if now, _ := r.time.AtLeast(); now > 500_000 {
					r.time.add(-time.Duration(rapid.IntRange(1, 60_000).Draw(t, "ms")) * time.Millisecond)
				}
			},
			"shards": func(t *rapid.T) {
				kept := r.heap.entriesOf(o.Shards())
				assign(drawShards(t))
				for id, d := range kept { // entries of kept shards stay
					if entry, found := r.heap.get(id); found != slices.Contains(o.Shards(), d.Shard) ||
						found && entry != d {
						t.Fatalf("%+v, with shards %v: in heap %t, as %+v", d, o.Shards(), found, entry)
					}
				}
			},
			"rings":   changeRings,
			"refresh": func(*rapid.T) { r.Refresh() },
			"fail":    func(t *rapid.T) { r.table.fail = rapid.Bool().Draw(t, "fail") },
			"restrict": func(t *rapid.T) {
				application := rapid.SampledFrom(rigApplications).Draw(t, "application")
				r.heap.restricted[application] = rapid.Bool().Draw(t, "restricted")
			},
			"": func(t *rapid.T) {
				if err := r.checkHeap(); err != nil {
					t.Fatalf("%v", err)
				}
				if ended := r.endedInHeap(); ended != nil {
					t.Fatalf("ended alarms in the heap: %v", ended)
				}
			},
		})
		r.table.fail, r.table.meanwhile = false, nil
		clear(r.heap.restricted)
		r.heap.capacity = 100_000
		o.change(func() { o.rungElsewhere = "" })
		assign([]int{0, 1, 2})
		for _, l := range r.loaders {
			l.lastSweep = time.Now()
			l.step(context.Background())
		}
		now, _ := r.time.AtLeast()
		for _, d := range r.table.rows {
			if _, inHeap := r.heap.get(d.ID); !inHeap && d.NextTryTime < now.Add(cfg.Window/2) {
				t.Fatalf("%+v was not loaded at %d", d, now)
			}
		}
	})
}

// A read is repeated if more than maxCommitted rows are committed while it runs.
func TestReadIsRepeatedAfterTooManyCommits(t *testing.T) {
	cfg := testConfig()
	cfg.Loaders, cfg.Page = 1, 10_000
	r := newRig(t, cfg, 1<<20, allShards(3))
	r.assign(assignment{shards: r.ownership.Shards()})
	now, _ := r.time.AtLeast()
	r.write(3, now)
	r.Rewind()
	r.table.meanwhile = func() {
		r.table.meanwhile = nil
		for id := range int64(maxCommitted) {
			r.write(1000+id, now+1)
		}
		r.write(3, now+100) // the running read has an older version of the row
	}
	l := r.loaders[0]
	l.lastSweep = time.Now()
	for range 100 {
		if more, err := l.read(t.Context()); err != nil || !more && l.progress.watermark.Time > now+1 {
			break
		}
	}
	if d, ok := r.heap.get(3); !ok || d.NextTryTime != now+100 {
		t.Errorf("%+v, %t", d, ok)
	}
}

// Writers, rings and loaders work concurrently. In the end the heap lacks no row before the watermark.
func TestConcurrentWritesAndReadsLoseNoRow(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	cfg := testConfig()
	cfg.Sweep = 100 * time.Millisecond
	r := newRig(t, cfg, 200, allShards(3))
	ctx, cancel := context.WithCancel(t.Context())
	var running, working sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	for w := range 4 {
		working.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range 3000 {
				now, _ := r.time.AtLeast()
				id := int64(rnd.IntN(500)*4+w) + 1 // each alarm has one writer, so its wake-ups come in the order of its commits
				due := now + clock.Instant(rnd.IntN(20_000)-2000)
				if rnd.IntN(4) == 0 {
					due = clock.NoInstant
				}
				r.write(id, due)
				switch {
				case i%100 == 0:
					r.time.add(50 * time.Millisecond)
				case i%7 == 0:
					r.Rewind()
				case i%20 == 0:
					r.pop(30)
				}
			}
		})
	}
	working.Wait()
	cancel()
	running.Wait()
	if err := r.checkHeap(); err != nil {
		t.Error(err)
	}
}

// fakeOwnership is an Ownership whose shards change on demand. All loaded shards are owned.
type fakeOwnership struct {
	mu            sync.Mutex
	shards        []int
	rungElsewhere string // application that another node rings; "" for none
	changed       chan struct{}

	gainedShards       []int
	gainedApplications []string
}

func (o *fakeOwnership) Shards() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shards
}

func (o *fakeOwnership) Owned() []int { return o.Shards() }

func (o *fakeOwnership) Rings(_ int, to store.Addressee) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return to.Application != o.rungElsewhere || to.Destination != 0
}

func (o *fakeOwnership) Gained() (shards []int, applications []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	shards, applications = o.gainedShards, o.gainedApplications
	o.gainedShards, o.gainedApplications = nil, nil
	return shards, applications
}

func (o *fakeOwnership) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

func (o *fakeOwnership) set(shards ...int) {
	o.change(func() { o.shards = shards })
}

func (o *fakeOwnership) change(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	shards, rungElsewhere := o.shards, o.rungElsewhere
	change()
	for _, shard := range o.shards {
		if !slices.Contains(shards, shard) {
			o.gainedShards = append(o.gainedShards, shard)
		}
	}
	if rungElsewhere != "" && o.rungElsewhere != rungElsewhere {
		o.gainedApplications = append(o.gainedApplications, rungElsewhere)
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// The heap has exactly the alarms that the node rings, whenever its shards or applications change.
func TestHeapFollowsOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &fakeOwnership{shards: []int{0, 1}, changed: make(chan struct{})}
		r := newRig(t, testConfig(), 1000, o)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		for id := range int64(90) {
			r.write(id, 1_000_500)
		}
		check := func(shards ...int) {
			t.Helper()
			synctest.Wait()
			for id := range int64(90) {
				if _, inHeap := r.heap.get(id); inHeap != slices.Contains(shards, int(id%3)) {
					t.Fatalf("with shards %v: %d of shard %d is in the heap: %t", shards, id, id%3, inHeap)
				}
			}
		}
		check(0, 1)
		o.set(1, 2)
		check(1, 2)
		r.write(3, 1_000_600) // of a shard that another node has now
		check(1, 2)
		o.set()
		check()
		r.write(4, 1_000_600)
		check()
		o.set(0, 1, 2)
		check(0, 1, 2)
		o.change(func() { o.shards, o.rungElsewhere = nil, "a" })
		synctest.Wait()
		o.change(func() { o.shards = []int{0, 1, 2} })
		synctest.Wait()
		r.write(4, 1_000_700) // of application a
		r.write(5, 1_000_700)
		for id := range int64(90) {
			isRungElsewhere := rigApplications[id%4] == "a" && rigContent(id).Destination.Number == 0
			if _, inHeap := r.heap.get(id); inHeap == isRungElsewhere {
				t.Fatalf("another node rings a: %d of %s is in the heap: %t", id, rigApplications[id%4], inHeap)
			}
		}
		o.change(func() { o.rungElsewhere = "" })
		check(0, 1, 2)
		if n := counter(t, r.reg, "clockd_preload_errors_total"); n != 0 {
			t.Errorf("%v reads failed", n)
		}
		cancel()
		running.Wait()
	})
}

func counter(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	return counterOf(t, reg, name, "")
}

// counterOf returns the counter whose first label has the value; with "" the first counter of the name.
func counterOf(t *testing.T, reg *prometheus.Registry, name, value string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (value == "" || m.GetLabel()[0].GetValue() == value) {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %s", name, value)
	return 0
}

// A read that ends because ctx ends does not count as failed. The next read brings its rows.
func TestStoppedReadIsNoFailure(t *testing.T) {
	r := newRig(t, testConfig(), 1000, allShards(3))
	r.assign(assignment{shards: r.ownership.Shards()})
	r.write(3, 1_000_500)
	ctx, cancel := context.WithCancel(t.Context())
	r.table.meanwhile = cancel
	r.loaders[0].step(ctx)
	if n := counter(t, r.reg, "clockd_preload_errors_total"); n != 0 {
		t.Errorf("%v reads failed", n)
	}
	r.table.meanwhile = nil
	for _, l := range r.loaders {
		l.step(t.Context())
	}
	if _, inHeap := r.heap.get(3); !inHeap {
		t.Error("the next read does not bring the row")
	}
}

// While reads fail, the loaders read less and less often, even if they are rewound. Afterwards they read all rows.
func TestFailingReadsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testConfig(), 1000, allShards(3))
		r.table.fail = true
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			r.Rewind()
		}
		r.table.mu.Lock()
		reads := r.table.reads
		r.table.fail = false
		r.table.mu.Unlock()
		if reads < 4*12 || reads > 4*30 {
			t.Errorf("%d reads of four loaders in a minute of failure", reads)
		}
		r.write(1, 1_000_500)
		time.Sleep(5 * time.Second)
		if _, inHeap := r.heap.get(1); !inHeap {
			t.Error("the row is not read after the failure")
		}
		cancel()
		running.Wait()
	})
}

func TestConfigValidate(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.Loaders = 0 }, func(c *Config) { c.Window = time.Second }, func(c *Config) { c.Page = 15 },
		func(c *Config) { c.Sweep = time.Millisecond },
	} {
		c := DefaultConfig()
		if change(&c); c.Validate() == nil {
			t.Errorf("%+v is valid", c)
		}
	}
}
