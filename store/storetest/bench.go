package storetest

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Benchmark measures the most frequent calls of a store. Its unit rows/s counts alarms.
func Benchmark(b *testing.B, e Engine) {
	db := e.New(b)
	s := db.Open(b)
	ok(b, s.Migrate(b.Context()), "migrate")
	ok(b, s.Check(b.Context()), "check")
	f := &fixture{t: b, db: db, Store: s}
	if !s.HoldsClaims() {
		f.timeout = claimTimeout
	}
	for _, n := range []int{benchGroup, benchSmall} {
		b.Run(fmt.Sprintf("write %d new", n), func(b *testing.B) { f.benchNew(b, n) })
		b.Run(fmt.Sprintf("cancel %d", n), func(b *testing.B) { f.benchCancel(b, n) })
	}
	b.Run("write 500 moved", f.benchMoved)
	b.Run("due", f.benchDue)
	b.Run("claim and settle 300 confirmed", func(b *testing.B) { f.benchRing(b, everyRing(clock.Confirmed)) })
	b.Run("claim and settle 300 returned", func(b *testing.B) { f.benchRing(b, everyRing(clock.Returned)) })
}

const (
	benchGroup = 500 // size of a group of bulk sets
	benchSmall = 30  // size of a group of single sets that arrived together
	benchClaim = 300

	benchDueRows = 1000
)

var benchRounds int

// benchSets returns sets with unused keys and payloads of 200 bytes.
func benchSets(n int) []clock.Op {
	benchRounds++
	return sets(names(fmt.Sprintf("bench-%d", benchRounds), n), t0, payload(make([]byte, 200)))
}

func (f *fixture) withTB(b *testing.B) *fixture {
	g := *f
	g.t = b
	return &g
}

func reportRate(b *testing.B, n int) { b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "rows/s") }

func (f *fixture) benchNew(b *testing.B, n int) {
	b.ReportAllocs()
	f = f.withTB(b)
	for b.Loop() {
		b.StopTimer()
		ops := benchSets(n)
		b.StartTimer()
		f.set(t0, ops...)
	}
	reportRate(b, n)
}

func (f *fixture) benchMoved(b *testing.B) {
	f = f.withTB(b)
	ops := benchSets(benchGroup)
	f.set(t0, ops...)
	for b.Loop() {
		for i := range ops {
			ops[i].Set.RingAt++
		}
		f.set(t0, ops...)
	}
	reportRate(b, benchGroup)
}

func (f *fixture) benchCancel(b *testing.B, n int) {
	b.ReportAllocs()
	f = f.withTB(b)
	for b.Loop() {
		b.StopTimer()
		ops := benchSets(n)
		f.set(t0, ops...)
		for i := range ops {
			ops[i] = clock.Op{Cancel: &clock.Cancel{Key: ops[i].Key(), Brief: n == benchGroup}}
		}
		b.StartTimer()
		f.set(t0, ops...)
	}
	reportRate(b, n)
}

// benchDue reads all 1000 rows in one page.
func (f *fixture) benchDue(b *testing.B) {
	b.ReportAllocs()
	f = f.withTB(b)
	f.set(t0, sets(names("due", benchDueRows), t0)...)
	shards := f.shards()
	for b.Loop() {
		page, err := f.Due(b.Context(),
			store.DueQuery{Shards: shards, Until: store.Position{Time: t0 + 1}, Limit: benchDueRows})
		ok(b, err, "due")
		same(b, "rows", len(page.Rows), benchDueRows)
	}
	reportRate(b, benchDueRows)
}

// testClaimAllocations bounds the allocations of a ring's claim and settlement. It takes the lowest count of several
// rounds, because other goroutines allocate too.
func testClaimAllocations(t *testing.T, f *fixture) {
	lowest := math.MaxFloat64
	for range 5 {
		ids := f.set(t0, benchSets(benchClaim)...)
		before := mallocs()
		f.claim(t0, ids...).settle(t0, everyRing(clock.Confirmed))
		lowest = min(lowest, float64(mallocs()-before)/benchClaim)
	}
	if lowest > float64(f.allocations) {
		t.Errorf("%.1f allocations a ring, more than %d", lowest, f.allocations)
	}
}

// mallocs returns the number of allocations of the process so far.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func (f *fixture) benchRing(b *testing.B, outcome func(*clock.Ring) clock.Outcome) {
	b.ReportAllocs()
	f = f.withTB(b)
	for b.Loop() {
		b.StopTimer()
		ids := f.set(t0, benchSets(benchClaim)...)
		b.StartTimer()
		c, err := f.Claim(context.Background(), f.request(t0, ids...))
		ok(b, err, "claim")
		_, err = (&claim{f: f, Claim: c, unsettled: true}).trySettle(t0, outcome)
		ok(b, err, "settle")
	}
	reportRate(b, benchClaim)
}
