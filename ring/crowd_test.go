package ring_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/store"
)

// crowdDB is a database of due rows in memory. A claim removes its rows at once. Calls take time in the bubble:
// crowdCall per call, and crowdRow or crowdRing per row.
type crowdDB struct {
	clock modelClock

	mu        sync.Mutex
	rows      [][]store.Due // rows by shard, in due order
	claimed   []bool        // by id: the row was claimed
	rowsRead  int           // rows that Due returned
	reads     int           // calls of Due
	unclaimed int
}

const (
	crowdShards = 64
	crowdCall   = 2 * time.Millisecond
	crowdRow    = 5 * time.Microsecond
	crowdRing   = 200 * time.Microsecond
)

// newCrowdDB returns a database of count rows, due within the second before now. application returns the number of each
// row's application.
func newCrowdDB(mc modelClock, count int, application func() int) *crowdDB {
	db := &crowdDB{clock: mc, rows: make([][]store.Due, crowdShards), claimed: make([]bool, count+1), unclaimed: count}
	now := mc.now()
	for id := 1; id <= count; id++ {
		shard := (id * 7919) % crowdShards
		db.rows[shard] = append(db.rows[shard], store.Due{
			ID: int64(id), NextTryTime: now - clock.Instant(1000-id*1000/(count+1)), Shard: shard,
			Application: fmt.Sprint("application", application()),
		})
	}
	for _, rows := range db.rows {
		slices.SortFunc(rows, func(a, b store.Due) int { return a.Position().Compare(b.Position()) })
	}
	return db
}

func (db *crowdDB) Due(_ context.Context, q store.DueQuery) (store.DuePage, error) {
	db.mu.Lock()
	var rows []store.Due
	for _, shard := range q.Shards {
		from, _ := slices.BinarySearchFunc(db.rows[shard], q.From,
			func(d store.Due, p store.Position) int { return d.Position().Compare(p) })
		n := 0
		for _, d := range db.rows[shard][from:] {
			if n == q.Limit || !d.Position().Before(q.Until) {
				break
			}
			if !db.claimed[d.ID] {
				rows = append(rows, d)
				n++
			}
		}
	}
	db.reads++
	db.rowsRead += len(rows)
	db.mu.Unlock()
	time.Sleep(crowdCall + time.Duration(len(rows))*crowdRow)
	return store.NewDuePage(q, rows), nil
}

func (db *crowdDB) Claim(_ context.Context, r store.ClaimRequest) (*store.Claim, error) {
	time.Sleep(crowdCall + time.Duration(len(r.IDs))*crowdRing)
	db.mu.Lock()
	defer db.mu.Unlock()
	c := &store.Claim{Settler: crowdSettler{}}
	for _, id := range r.IDs {
		if !db.claimed[id] {
			db.claimed[id] = true
			db.unclaimed--
			c.Rings = append(c.Rings,
				clock.Ring{AlarmID: id, Key: clock.Key{Application: "a"}, LatestRingAt: clock.NoInstant})
		}
	}
	if len(c.Rings) == 0 {
		c.Settler = nil
	}
	return c, nil
}

func (db *crowdDB) Expire(context.Context, clock.Instant, []int, store.Position, int) (store.ExpiredPage, error) {
	return store.ExpiredPage{}, nil
}

// HoldsClaims returns true, as of a database server.
func (*crowdDB) HoldsClaims() bool { return true }

type crowdSettler struct{}

func (crowdSettler) Settle(context.Context, clock.Instant, []clock.Fate) error { return nil }
func (crowdSettler) Release(context.Context) error                             { return nil }

// crowd is the cost of ringing a backlog.
type crowd struct {
	took            time.Duration // time in the bubble
	rowsRead, reads int
}

// ringCrowd rings a backlog of count alarms through a heap with the given capacity.
func ringCrowd(t *testing.T, count int, application func() int, capacity int) (c crowd) {
	t.Helper()
	return ringCrowdAt(t, count, application, capacity, func(m *modelTarget) ring.Target { return m })
}

// ringCrowdAt is ringCrowd, at a target that is made of the model.
func ringCrowdAt(
	t *testing.T, count int, application func() int, capacity int, target func(*modelTarget) ring.Target,
) (c crowd) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mc := modelClock{offset: 26 * 365 * 24 * time.Hour}
		db := newCrowdDB(mc, count, application)
		owner := &modelOwner{changed: make(chan struct{})}
		for i := range crowdShards {
			owner.shards = append(owner.shards, i)
		}
		heap, reg, log := ring.NewHeap(4, capacity), prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
		pre, err := preload.New(preload.DefaultConfig(),
			preload.Deps{Loader: db, Heap: heap, Time: mc, Ownership: owner, Log: log, Registerer: reg})
		loop, err2 := ring.New(ring.DefaultConfig(), ring.Deps{
			Heap: heap, Database: db,
			Routes: []*ring.Route{{Name: "model", Target: target(newModelTarget(mc)), HoldsClaims: true}}, Time: mc,
			Feeder: pre, Log: log, Registerer: reg,
		})
		if err := cmp.Or(err, err2); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = pre.Run(ctx) })
		running.Go(func() { _ = loop.Run(ctx) })
		began := time.Now()
		for left := count; left > 0; {
			time.Sleep(10 * time.Millisecond)
			db.mu.Lock()
			left = db.unclaimed
			db.mu.Unlock()
			if time.Since(began) > 10*time.Minute {
				t.Errorf("%d of %d are not rung", left, count)
				break
			}
		}
		stop()
		running.Wait()
		c = crowd{took: time.Since(began), rowsRead: db.rowsRead, reads: db.reads}
	})
	return c
}

// A backlog is larger than the heap. Thousands of applications need about as many reads and as much time for it as ten
// applications, however their alarms are mixed.
func TestBacklogOfManyApplicationsReadsAsLittleAsOfFew(t *testing.T) {
	const count, capacity = 21_000, 7000
	few := ringCrowd(t, count, mixRandomly(10), capacity)
	few.log(t, "10 applications", count)
	for name, mix := range map[string]func(applications int) func() int{"turns": mixByTurns, "random": mixRandomly, "uneven": mixUnevenly} {
		t.Run(name, func(t *testing.T) {
			many := ringCrowd(t, count, mix(1750), capacity)
			many.log(t, "1750 applications", count)
			if rows := float64(many.rowsRead) / count; rows > 6 {
				t.Errorf("%.1f rows read per ring", rows)
			}
			if float64(few.took) < 0.8*float64(many.took) {
				t.Errorf("it took %s, with 10 applications %s", many.took, few.took)
			}
		})
	}
}

// rationedModel takes up to a number of rings of each application at once.
type rationedModel struct {
	*modelTarget
	ration int
}

func (m rationedModel) Ration(string) int { return m.ration }

// The alarms of an application whose target says how many rings it takes stay in memory until then. They are not read
// again, and take no longer than without rations.
func TestBacklogOfARationedApplicationIsReadOnce(t *testing.T) {
	const count, capacity = 20_000, 30_000
	freely := ringCrowd(t, count, mixByTurns(1), capacity)
	freely.log(t, "without rations", count)
	rationed := ringCrowdAt(t, count, mixByTurns(1), capacity,
		func(m *modelTarget) ring.Target { return rationedModel{m, 600} })
	rationed.log(t, "with rations", count)
	if rows := float64(rationed.rowsRead) / count; rows > 2 {
		t.Errorf("%.1f rows read per ring", rows)
	}
	if 0.6*float64(rationed.took) > float64(freely.took) { // two workers, not three
		t.Errorf("it took %s, without rations %s", rationed.took, freely.took)
	}
}

func (c crowd) log(t *testing.T, what string, count int) {
	t.Helper()
	t.Logf("%s: %d rung in %s of the model's time, %d reads, %.2f rows read per ring", what, count, c.took, c.reads,
		float64(c.rowsRead)/float64(count))
}

func mixByTurns(applications int) func() int {
	n := 0
	return func() int { n++; return n % applications }
}

func mixRandomly(applications int) func() int {
	rnd := rand.New(rand.NewPCG(1, 2))
	return func() int { return rnd.IntN(applications) }
}

func mixUnevenly(applications int) func() int {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, uint64(applications))
	return func() int { return int(zipf.Uint64()) }
}
