package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rings makes that many rings of an application.
func rings(application string, n int) []clock.Ring {
	rs := make([]clock.Ring, n)
	for i := range rs {
		rs[i] = clock.Ring{AlarmID: int64(i + 1), Key: clock.Key{Application: application, BusinessID: fmt.Sprint(i)}, Generation: 1, RingNo: 1}
	}
	return rs
}

func limits() ring.Limits {
	return ring.Limits{Write: time.Now().Add(time.Second), Answer: time.Now().Add(2 * time.Second)}
}

// read takes deliveries until ctx ends, answers each with err, and counts its rings.
func read(ctx context.Context, s clock.Subscription, took *atomic.Int64, pause time.Duration, err error) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-s.Deliveries():
			time.Sleep(pause)
			took.Add(int64(len(d.Rings)))
			d.Done(err)
		}
	}
}

// count returns how many outcomes there are of each kind.
func count(outcomes []clock.Outcome) map[clock.OutcomeKind]int {
	n := map[clock.OutcomeKind]int{}
	for _, o := range outcomes {
		n[o.Kind]++
	}
	return n
}

func want(t *testing.T, outcomes []clock.Outcome, kind clock.OutcomeKind, n int) {
	t.Helper()
	if got := count(outcomes); got[kind] != n {
		t.Errorf("%v, want %d %s", got, n, kind)
	}
}

func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		ctx, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		took := make([]atomic.Int64, 3)
		for i := range took {
			s := target.Subscribe("a")
			readers.Go(func() {
				defer s.Close()
				read(ctx, s, &took[i], time.Millisecond, nil)
			})
		}
		outcomes := target.Lane().Deliver(ctx, rings("a", 30*maxDelivery), limits())
		want(t, outcomes, clock.Confirmed, 30*maxDelivery)
		for i := range took {
			if n := took[i].Load(); n < 8*maxDelivery {
				t.Errorf("subscriber %d took %d of %d rings", i, n, 30*maxDelivery)
			}
		}
		cancel()
		readers.Wait()
	})
}

// TestOrder: a subscriber that is alone gets the rings in the order of the claim.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		var got []int64
		var reader sync.WaitGroup
		reader.Go(func() {
			for len(got) < 3*maxDelivery {
				d := <-s.Deliveries()
				for i := range d.Rings {
					got = append(got, d.Rings[i].AlarmID)
				}
				d.Done(nil)
			}
		})
		target.Lane().Deliver(t.Context(), rings("a", 3*maxDelivery), limits())
		reader.Wait()
		if !slices.IsSorted(got) {
			t.Errorf("out of order: %v", got)
		}
	})
}

func TestNobody(t *testing.T) {
	target := New()
	if target.Accepts("a") {
		t.Error("accepted without a subscriber")
	}
	want(t, target.Lane().Deliver(t.Context(), rings("a", 3), limits()), clock.Unsent, 3)
}

func TestComingAndGoing(t *testing.T) {
	target := New()
	first, second := target.Subscribe("a"), target.Subscribe("a")
	select {
	case <-target.Changed():
	default:
		t.Error("nobody was told that a subscriber came")
	}
	first.Close()
	first.Close() // counts once
	if !target.Accepts("a") || target.Accepts("b") || target.Subscribers() != 1 || target.Usable() != nil {
		t.Errorf("one of two went: accepts %t, subscribers %d", target.Accepts("a"), target.Subscribers())
	}
	second.Close()
	if target.Accepts("a") || target.Subscribers() != 0 || len(target.open) != 0 {
		t.Errorf("both went: accepts %t, subscribers %d", target.Accepts("a"), target.Subscribers())
	}
	third := target.Subscribe("a")
	second.Close() // of an outlet that is gone
	if !target.Accepts("a") {
		t.Error("an old subscription closed a new one's outlet")
	}
	third.Close()
}

// TestNotReading: who does not read takes its own application's time, not the others'.
func TestNotReading(t *testing.T) {
	for range 8 { // applications come in any order
		synctest.Test(t, notReading)
	}
}

func notReading(t *testing.T) {
	target := New()
	lazy, busy := target.Subscribe("lazy"), target.Subscribe("busy")
	defer lazy.Close()
	defer busy.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var took atomic.Int64
	var readers sync.WaitGroup
	begun := time.Now()
	var last time.Duration
	readers.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case d := <-busy.Deliveries():
				took.Add(int64(len(d.Rings)))
				last = time.Since(begun)
				d.Done(nil)
			}
		}
	})
	outcomes := target.Lane().Deliver(ctx, append(rings("lazy", 100), rings("busy", 200)...), limits())
	want(t, outcomes[:100], clock.Untaken, 100)
	want(t, outcomes[100:], clock.Confirmed, 200)
	if last != 0 || time.Since(begun) != time.Second {
		t.Errorf("the other waited %s, the delivery %s", last, time.Since(begun))
	}
	cancel()
	readers.Wait()
}

// TestOneOfTwoNotReading: the other takes all.
func TestOneOfTwoNotReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		lazy, busy := target.Subscribe("a"), target.Subscribe("a")
		defer lazy.Close()
		defer busy.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var took atomic.Int64
		var readers sync.WaitGroup
		readers.Go(func() { read(ctx, busy, &took, 0, nil) })
		want(t, target.Lane().Deliver(ctx, rings("a", 300), limits()), clock.Confirmed, 300)
		cancel()
		readers.Wait()
	})
}

// TestLastGoes: what nobody had taken up is unsent at once.
func TestLastGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		time.AfterFunc(100*time.Millisecond, func() {
			d := <-s.Deliveries()
			s.Close()
			d.Done(errors.New("broken pipe"))
		})
		begun := time.Now()
		outcomes := target.Lane().Deliver(t.Context(), rings("a", maxDelivery+10), limits())
		want(t, outcomes, clock.Doubtful, maxDelivery)
		want(t, outcomes, clock.Unsent, 10)
		if took := time.Since(begun); took != 100*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

// TestNoAnswer: what was taken up and not answered is in doubt at the limit; an answer after it harms nobody.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		taken := make(chan clock.Delivery, 1)
		var reader sync.WaitGroup
		reader.Go(func() { taken <- <-s.Deliveries() })
		begun := time.Now()
		outcomes := target.Lane().Deliver(t.Context(), rings("a", 5), limits())
		want(t, outcomes, clock.Doubtful, 5)
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
		reader.Wait()
		(<-taken).Done(nil)
		want(t, outcomes, clock.Doubtful, 5)
	})
}

func TestStopping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, func() {
			<-s.Deliveries()
			cancel()
		})
		outcomes := target.Lane().Deliver(ctx, rings("a", maxDelivery+1), limits())
		want(t, outcomes, clock.Doubtful, maxDelivery)
		want(t, outcomes, clock.Unsent, 1)
	})
}

// TestLimitIsPast: nothing is handed over after the write limit, though somebody is waiting for it.
func TestLimitIsPast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 { // a select takes any of what is ready
			target := New()
			s := target.Subscribe("a")
			ctx, cancel := context.WithCancel(t.Context())
			var took atomic.Int64
			var readers sync.WaitGroup
			readers.Go(func() { read(ctx, s, &took, 0, nil) })
			synctest.Wait()
			past := ring.Limits{Write: time.Now().Add(-time.Millisecond), Answer: time.Now().Add(time.Second)}
			want(t, target.Lane().Deliver(ctx, rings("a", 3*maxDelivery), past), clock.Confirmed, 0)
			if took.Load() != 0 {
				t.Fatalf("%d rings were handed over after the limit", took.Load())
			}
			cancel()
			readers.Wait()
			s.Close()
		}
	})
}

// TestComeAndGoUnderLoad has subscribers come and go while lanes deliver: every outcome is one that the subscribers agree with.
func TestComeAndGoUnderLoad(t *testing.T) {
	target := New()
	ctx, cancel := context.WithCancel(t.Context())
	var took, confirmed atomic.Int64
	var subscribers, lanes sync.WaitGroup
	for i := range 8 {
		subscribers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				s := target.Subscribe(fmt.Sprint("app", i%3))
				for range n % 5 {
					select {
					case d := <-s.Deliveries():
						took.Add(int64(len(d.Rings)))
						d.Done(nil)
					case <-ctx.Done():
					}
				}
				s.Close()
			}
		})
	}
	for i := range 4 {
		lanes.Go(func() {
			lane := target.Lane()
			for range 50 {
				batch := append(rings("app0", 100), rings("app1", 50+i)...)
				limits := ring.Limits{Write: time.Now().Add(20 * time.Millisecond), Answer: time.Now().Add(5 * time.Second)}
				for k, n := range count(lane.Deliver(t.Context(), batch, limits)) {
					switch k {
					case clock.Confirmed:
						confirmed.Add(int64(n))
					case clock.Unsent, clock.Untaken:
					default:
						t.Errorf("%d %s", n, k)
					}
				}
			}
			if err := lane.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	lanes.Wait()
	cancel()
	subscribers.Wait()
	if took.Load() != confirmed.Load() || target.Subscribers() != 0 || len(target.open) != 0 {
		t.Errorf("took %d, confirmed %d, %d subscribers", took.Load(), confirmed.Load(), target.Subscribers())
	}
}
