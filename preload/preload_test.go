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

// fakeTable is what is due, in memory. Between what a read sees and its answer, meanwhile is called.
type fakeTable struct {
	meanwhile func()

	mu    sync.Mutex
	rows  map[int64]store.Due
	fail  bool
	reads int
}

func (f *fakeTable) Due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	f.mu.Lock()
	f.reads++
	var rows []store.Due
	for _, d := range f.rows {
		if slices.Contains(q.Shards, d.Shard) && !d.Position().Before(q.From) && d.Position().Before(q.Until) {
			rows = append(rows, d)
		}
	}
	fail := f.fail
	f.mu.Unlock()
	sortDue(rows)
	count := map[int]int{}
	rows = slices.DeleteFunc(rows, func(d store.Due) bool { count[d.Shard]++; return count[d.Shard] > q.Limit })
	if f.meanwhile != nil {
		f.meanwhile()
	}
	if fail {
		return store.DuePage{}, errors.New("the table fails")
	}
	return store.NewDuePage(q, rows), ctx.Err()
}

func sortDue(rows []store.Due) {
	slices.SortFunc(rows, func(a, b store.Due) int {
		return cmp.Or(cmp.Compare(a.NextTryTime, b.NextTryTime), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
}

// fakeHeap takes rows until it is full, but for applications that are held.
type fakeHeap struct {
	capacity int
	loaders  int
	drained  chan struct{}

	mu   sync.Mutex
	rows map[int64]store.Due
	held map[string]bool
}

func newFakeHeap(capacity int) *fakeHeap {
	return &fakeHeap{capacity: capacity, drained: make(chan struct{}, 1), rows: map[int64]store.Due{}, held: map[string]bool{}}
}

func (h *fakeHeap) Offer(_ int, rows []store.Due) []store.Due {
	h.mu.Lock()
	defer h.mu.Unlock()
	missing := map[string]store.Due{}
	for _, d := range rows {
		_, known := h.rows[d.ID]
		if known || len(h.rows) < h.capacity && !h.held[d.Application] {
			h.rows[d.ID] = d
		} else if m, ok := missing[d.Application]; !ok || d.Position().Before(m.Position()) {
			missing[d.Application] = d
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

func (h *fakeHeap) Keep(in int, wanted func(int) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, d := range h.rows {
		if d.Shard%h.loaders == in && !wanted(d.Shard) {
			delete(h.rows, id)
		}
	}
}

func (h *fakeHeap) Wants(_ int, application string, _ store.Position) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.held[application] && len(h.rows) <= h.capacity/2
}

func (h *fakeHeap) Drained(int) <-chan struct{} { return h.drained }

func (h *fakeHeap) get(id int64) (store.Due, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, ok := h.rows[id]
	return d, ok
}

// of returns what is there of these shards.
func (h *fakeHeap) of(shards []int) map[int64]store.Due {
	h.mu.Lock()
	defer h.mu.Unlock()
	rows := maps.Clone(h.rows)
	maps.DeleteFunc(rows, func(_ int64, d store.Due) bool { return !slices.Contains(shards, d.Shard) })
	return rows
}

// fakeTime stands still until it is moved.
type fakeTime struct {
	mu  sync.Mutex
	now clock.Instant
}

func (f *fakeTime) Now() (clock.Instant, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now, nil
}

func (f *fakeTime) add(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
}

// rig is a preloader over fakes, and who writes to the table.
type rig struct {
	*Preloader
	table *fakeTable
	heap  *fakeHeap
	time  *fakeTime
	reg   *prometheus.Registry
}

var rigApplications = []string{"a", "a", "b", "c"}

func newRig(t interface {
	Fatalf(format string, args ...any)
}, cfg Config, capacity int, owner Ownership) *rig {
	r := &rig{
		table: &fakeTable{rows: map[int64]store.Due{}}, heap: newFakeHeap(capacity), time: &fakeTime{now: 1_000_000}, reg: prometheus.NewRegistry(),
	}
	r.heap.loaders = cfg.Loaders
	var err error
	r.Preloader, err = New(cfg, Deps{
		Loader: r.table, Heap: r.heap, Time: r.time, Ownership: owner, Log: slog.New(slog.DiscardHandler), Registerer: r.reg,
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return r
}

// write commits a change of an alarm and wakes the preloader: due, or over for NoInstant. The id fixes shard, application and
// priority.
func (r *rig) write(id int64, due clock.Instant) {
	d := store.Due{ID: id, NextTryTime: due, Rank: store.Rank(int(id % 10)), Shard: int(id % 3), Application: rigApplications[id%4]}
	verdict := clock.Replace
	r.table.mu.Lock()
	if _, known := r.table.rows[id]; !known {
		verdict = clock.Create
	}
	if r.table.rows[id] = d; due == clock.NoInstant {
		verdict = clock.Stop
		delete(r.table.rows, id)
	}
	r.table.mu.Unlock()
	r.Wake([]clock.Decision{{Verdict: verdict, Alarm: clock.Alarm{
		ID: id, Shard: d.Shard, Key: clock.Key{Application: d.Application}, Content: clock.Content{Priority: int(id % 10)}, NextTryTime: due,
	}}})
}

// missing returns why a row that is before the watermark, and not left out, is not in the heap as it is.
func (r *rig) missing() error {
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	for id, d := range r.table.rows {
		if _, here := r.heap.get(id); !slices.Contains(r.ownership.Shards(), d.Shard) {
			if here {
				return fmt.Errorf("%+v is in the heap, and of another's shard", d)
			}
			continue
		}
		p := &r.loaders[d.Shard%len(r.loaders)].progress
		p.mu.Lock()
		from, behind := p.behind[d.Application]
		mark := p.mark
		p.mu.Unlock()
		in, here := r.heap.get(id)
		switch {
		case here && in != d:
			return fmt.Errorf("%+v is in the heap as %+v", d, in)
		case !here && d.Position().Before(mark) && (!behind || d.Position().Before(from)):
			return fmt.Errorf("%+v is lost: mark %+v, behind %+v, %t", d, mark, from, behind)
		}
	}
	return nil
}

// over returns what is in the heap though it is over. A read may bring in what is rung meanwhile: a claim passes it over.
func (r *rig) over() (ids []int64) {
	for id := range r.heap.rows {
		if _, ok := r.table.rows[id]; !ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// pop takes what is due out of the heap and ends it, as ringing does.
func (r *rig) pop(limit int) {
	now, _ := r.time.Now()
	r.table.mu.Lock()
	defer r.table.mu.Unlock()
	r.heap.mu.Lock()
	defer r.heap.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(r.heap.rows)) {
		if d := r.heap.rows[id]; d.NextTryTime <= now && limit > 0 {
			limit--
			delete(r.heap.rows, id)
			if r.table.rows[id] == d { // else a claim passes it over
				delete(r.table.rows, id)
			}
		}
	}
	select {
	case r.heap.drained <- struct{}{}:
	default:
	}
}

// retry takes what is due out of the heap and puts it off, as a try that fails does.
func (r *rig) retry(limit int) {
	now, _ := r.time.Now()
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

// TestWatermark: at no time is a committed row before the watermark missing, or in the heap as it was before; commits come also
// between what a read sees and its end.
func TestWatermark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.Loaders = rapid.IntRange(1, 3).Draw(t, "loaders")
		o := &owner{changed: make(chan struct{})}
		r := newRig(t, cfg, rapid.SampledFrom([]int{1, 10, 50, 10_000}).Draw(t, "capacity"), o)
		assign := func(shards []int) {
			o.set(shards...)
			r.assign(shards)
		}
		assign([]int{0, 1, 2})
		write := func(t *rapid.T) {
			now, _ := r.time.Now()
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
					l.swept = time.Time{}
				}
				_, _ = l.read(context.Background())
			},
			"pop":  func(t *rapid.T) { r.pop(rapid.IntRange(1, 30).Draw(t, "limit")) },
			"time": func(t *rapid.T) { r.time.add(time.Duration(rapid.IntRange(1, 6000).Draw(t, "ms")) * time.Millisecond) },
			"shards": func(t *rapid.T) {
				kept := r.heap.of(o.Shards())
				assign(drawShards(t))
				for id, d := range kept { // what is kept stays
					if in, here := r.heap.get(id); here != slices.Contains(o.Shards(), d.Shard) || here && in != d {
						t.Fatalf("%+v, with shards %v: %t, %+v", d, o.Shards(), here, in)
					}
				}
			},
			"fail": func(t *rapid.T) { r.table.fail = rapid.Bool().Draw(t, "fail") },
			"hold": func(t *rapid.T) {
				r.heap.held[rapid.SampledFrom(rigApplications).Draw(t, "application")] = rapid.Bool().Draw(t, "held")
			},
			"": func(t *rapid.T) {
				if err := r.missing(); err != nil {
					t.Fatalf("%v", err)
				}
				if over := r.over(); over != nil {
					t.Fatalf("in the heap, and over: %v", over)
				}
			},
		})
		r.table.fail, r.table.meanwhile = false, nil
		clear(r.heap.held)
		r.heap.capacity = 100_000
		assign([]int{0, 1, 2})
		for _, l := range r.loaders {
			l.swept = time.Now()
			l.step(context.Background())
		}
		now, _ := r.time.Now()
		for _, d := range r.table.rows {
			if _, here := r.heap.get(d.ID); !here && d.NextTryTime < now.Add(cfg.Window/2) {
				t.Fatalf("%+v was not loaded at %d", d, now)
			}
		}
	})
}

// TestManyNews: a read during which more was committed than is noted is read again.
func TestManyNews(t *testing.T) {
	cfg := testConfig()
	cfg.Loaders, cfg.Page = 1, 10_000
	r := newRig(t, cfg, 1<<20, AllShards(3))
	r.assign(r.ownership.Shards())
	now, _ := r.time.Now()
	r.write(3, now)
	r.Rewind()
	r.table.meanwhile = func() {
		r.table.meanwhile = nil
		for id := range int64(maxNews) {
			r.write(1000+id, now+1)
		}
		r.write(3, now+100) // what was read of it is older
	}
	l := r.loaders[0]
	l.swept = time.Now()
	for range 100 {
		if more, err := l.read(t.Context()); err != nil || !more && l.progress.mark.Time > now+1 {
			break
		}
	}
	if d, ok := r.heap.get(3); !ok || d.NextTryTime != now+100 {
		t.Errorf("%+v, %t", d, ok)
	}
}

// TestStress has writers, ringers and loaders at work at once; in the end everything that is due soon is in the heap.
func TestStress(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	cfg := testConfig()
	cfg.Sweep = 100 * time.Millisecond
	r := newRig(t, cfg, 200, AllShards(3))
	ctx, cancel := context.WithCancel(t.Context())
	var running, working sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	for w := range 4 {
		working.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(w)))
			for i := range 3000 {
				now, _ := r.time.Now()
				id := int64(rnd.IntN(500)*4+w) + 1 // one writer an alarm: its wake-ups are in the order of its commits
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
	if err := r.missing(); err != nil {
		t.Error(err)
	}
}

// owner's shards change on demand.
type owner struct {
	mu       sync.Mutex
	shards   []int
	unwanted string // application
	changed  chan struct{}
}

func (o *owner) Shards() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.shards
}

func (o *owner) Owned() []int { return o.Shards() }

func (o *owner) Wanted(_ int, application string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return application != o.unwanted
}

func (o *owner) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

func (o *owner) set(shards ...int) {
	o.change(func() { o.shards = shards })
}

func (o *owner) change(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
	close(o.changed)
	o.changed = make(chan struct{})
}

func TestOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{shards: []int{0, 1}, changed: make(chan struct{})}
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
				if _, here := r.heap.get(id); here != slices.Contains(shards, int(id%3)) {
					t.Fatalf("with %v: %d of shard %d is there: %t", shards, id, id%3, here)
				}
			}
		}
		check(0, 1)
		o.set(1, 2)
		check(1, 2)
		r.write(3, 1_000_600) // of a shard that is another's now
		check(1, 2)
		o.set()
		check()
		r.write(4, 1_000_600)
		check()
		o.set(0, 1, 2)
		check(0, 1, 2)
		o.change(func() { o.shards, o.unwanted = nil, "a" })
		synctest.Wait()
		o.change(func() { o.shards = []int{0, 1, 2} })
		synctest.Wait()
		r.write(4, 1_000_700) // of a
		r.write(5, 1_000_700)
		for id := range int64(90) {
			if _, here := r.heap.get(id); here == (rigApplications[id%4] == "a") {
				t.Fatalf("%d of %s, where a is not wanted, is there: %t", id, rigApplications[id%4], here)
			}
		}
		o.change(func() { o.unwanted = "" })
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

// counterOf returns a counter with that label's value.
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

// TestStopDuringRead: a read that ends because its time is over is no failure, and what it was to read is read next time.
func TestStopDuringRead(t *testing.T) {
	r := newRig(t, testConfig(), 1000, AllShards(3))
	r.assign(r.ownership.Shards())
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
	if _, here := r.heap.get(3); !here {
		t.Error("not read afterwards")
	}
}

// TestBackoff: while the table fails it is asked less and less, whatever else happens; then all is read.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, testConfig(), 1000, AllShards(3))
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
		if _, here := r.heap.get(1); !here {
			t.Error("not read after the failure")
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
