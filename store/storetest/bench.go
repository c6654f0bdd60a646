package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Benchmark measures what a store is asked for most. rows/s is of alarms.
func Benchmark(b *testing.B, e Engine) {
	db := e.New(b)
	s := db.Open(b)
	ok(b, s.Migrate(b.Context()), "migrate")
	ok(b, s.Check(b.Context()), "check")
	f := &fixture{t: b, db: db, Store: s}
	if !s.HoldsClaims() {
		f.lease = defaultLease
	}
	b.Run("write 500 new", f.benchNew)
	b.Run("write 500 moved", f.benchMoved)
	b.Run("cancel 500", f.benchCancel)
	b.Run("due", f.benchDue)
	b.Run("claim and settle 300 confirmed", func(b *testing.B) { f.benchRing(b, all(clock.Confirmed)) })
	b.Run("claim and settle 300 returned", func(b *testing.B) { f.benchRing(b, all(clock.Returned)) })
}

const (
	benchGroup = 500
	benchClaim = 300
)

var benchRound int

// benchSets makes sets with keys that were never used and payloads of 200 bytes.
func benchSets(n int) []clock.Op {
	benchRound++
	return sets(names(fmt.Sprintf("bench-%d", benchRound), n), t0, payload(make([]byte, 200)))
}

func (f *fixture) on(b *testing.B) *fixture {
	g := *f
	g.t = b
	return &g
}

func rate(b *testing.B, n int) { b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "rows/s") }

func (f *fixture) benchNew(b *testing.B) {
	f = f.on(b)
	for b.Loop() {
		f.set(t0, benchSets(benchGroup)...)
	}
	rate(b, benchGroup)
}

func (f *fixture) benchMoved(b *testing.B) {
	f = f.on(b)
	ops := benchSets(benchGroup)
	f.set(t0, ops...)
	for b.Loop() {
		for i := range ops {
			ops[i].Set.RingAt++
		}
		f.set(t0, ops...)
	}
	rate(b, benchGroup)
}

func (f *fixture) benchCancel(b *testing.B) {
	f = f.on(b)
	for b.Loop() {
		b.StopTimer()
		ops := benchSets(benchGroup)
		f.set(t0, ops...)
		for i := range ops {
			ops[i] = clock.Op{Cancel: &clock.Cancel{Key: ops[i].Key()}}
		}
		b.StartTimer()
		f.set(t0, ops...)
	}
	rate(b, benchGroup)
}

// benchDue reads a page of all shards.
func (f *fixture) benchDue(b *testing.B) {
	f = f.on(b)
	shards := f.shards()
	for b.Loop() {
		_, err := f.Due(b.Context(), store.DueQuery{Shards: shards, Until: store.Position{Time: t0}, Limit: 10})
		ok(b, err, "due")
	}
}

func (f *fixture) benchRing(b *testing.B, outcome func(*clock.Ring) clock.Outcome) {
	f = f.on(b)
	for b.Loop() {
		b.StopTimer()
		ids := f.set(t0, benchSets(benchClaim)...)
		b.StartTimer()
		c, err := f.Claim(context.Background(), f.request(t0, ids...))
		ok(b, err, "claim")
		_, err = (&claim{f: f, Claim: c, open: true}).trySettle(t0, outcome)
		ok(b, err, "settle")
	}
	rate(b, benchClaim)
}
