package clock

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

func BenchmarkShard(b *testing.B) {
	k := Key{"shop", "order-4711-a-longer-business-id"}
	b.ReportAllocs()
	for b.Loop() {
		k.Shard(64)
	}
}

func BenchmarkDecide(b *testing.B) {
	for _, row := range []string{"none", "scheduled", "rung"} {
		for _, content := range []string{"same", "later"} {
			b.Run(row+"/"+content, func(b *testing.B) {
				alarm, op := tableRow(row), Op{Set: tableSet(content)}
				b.ReportAllocs()
				for b.Loop() {
					if d := op.Decide(alarm, tableNow); d.Err != nil {
						b.Fatal(d.Err)
					}
				}
			})
		}
	}
}

func BenchmarkDecideCancel(b *testing.B) {
	alarm, op := tableRow("scheduled"), Op{Cancel: &Cancel{Key: Key{"shop", "4711"}}}
	b.ReportAllocs()
	for b.Loop() {
		op.Decide(alarm, tableNow)
	}
}

func BenchmarkFateOf(b *testing.B) {
	for _, kind := range []OutcomeKind{Confirmed, Returned} {
		b.Run(kind.String(), func(b *testing.B) {
			r, o := testRing(), Outcome{Kind: kind, Reason: "no queue is bound"}
			b.ReportAllocs()
			for b.Loop() {
				FateOf(r, o, 51_000)
			}
		})
	}
}

func BenchmarkMessageID(b *testing.B) {
	r := testRing()
	b.ReportAllocs()
	for b.Loop() {
		_ = r.MessageID()
	}
}

func BenchmarkValidate(b *testing.B) {
	s := testSet("order-4711")
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Validate(DefaultMaxPayload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkTimebaseNow(b *testing.B) {
	tb := localTimebase(b)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = tb.AtLeast()
	}
}

// freeStore is a Store whose writes return at once and store nothing.
type freeStore struct{ Store }

func (freeStore) Write(_ context.Context, r WriteRequest) ([]Decision, error) {
	decisions := make([]Decision, len(r.Ops))
	for i, op := range r.Ops {
		decisions[i] = op.Decide(nil, r.Now)
	}
	return decisions, nil
}

type localTime struct{}

func (localTime) Time(context.Context) (int64, error) { return time.Now().UnixMicro(), nil }

func localTimebase(tb testing.TB) *Timebase {
	tb.Helper()
	t, err := NewTimebase(TimebaseConfig{Interval: time.Minute, Idle: time.Minute, MaxAge: 3 * time.Hour},
		TimebaseDeps{Source: localTime{}})
	if err != nil {
		tb.Fatal(err)
	}
	if err := t.Sample(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return t
}

// BenchmarkWriter measures the Writer alone. A caller submits batches of 100 new keys to a store that does nothing.
func BenchmarkWriter(b *testing.B) {
	const batch = 100
	s, err := NewService(DefaultServiceConfig(),
		ServiceDeps{Store: freeStore{}, Time: localTimebase(b), Listener: listenerFunc(func([]Decision) {})})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	var run sync.WaitGroup
	run.Go(func() { _ = s.Run(ctx) })
	defer run.Wait()
	defer cancel()
	var sets [batch]*Set
	for i := range sets {
		sets[i] = testSet(fmt.Sprintf("order-%d", i))
	}
	b.ReportAllocs()
	for b.Loop() {
		var pending [batch]*Pending
		for i, set := range sets {
			pending[i] = s.Submit(ctx, Op{Set: set})
		}
		for _, p := range pending {
			if _, err := p.Wait(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "ops/s")
}
