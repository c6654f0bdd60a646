package stream

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// rings makes n rings of an application.
func rings(application string, n int) []clock.Ring {
	rs := make([]clock.Ring, n)
	for i := range rs {
		rs[i] = clock.Ring{AlarmID: int64(i + 1), Key: clock.Key{Application: application, BusinessID: fmt.Sprint(i)},
			Generation: 1, RingNo: 1}
	}
	return rs
}

func limits() ring.Limits {
	return ring.Limits{WriteBy: time.Now().Add(time.Second), ReplyBy: time.Now().Add(2 * time.Second)}
}

// readDeliveries takes deliveries until ctx ends. It counts the rings and reports err for each delivery.
func readDeliveries(ctx context.Context, s clock.Subscription, took *atomic.Int64, pause time.Duration, err error) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-s.Deliveries():
			time.Sleep(pause)
			took.Add(int64(len(d.Rings)))
			if err != nil {
				d.Done(0, len(d.Rings), err)
				continue
			}
			d.Done(len(d.Rings), len(d.Rings), nil)
		}
	}
}

// count returns the number of outcomes of each kind.
func count(outcomes []clock.Outcome) map[clock.OutcomeKind]int {
	n := map[clock.OutcomeKind]int{}
	for _, o := range outcomes {
		n[o.Kind]++
	}
	return n
}

func wantOutcomes(t *testing.T, outcomes []clock.Outcome, kind clock.OutcomeKind, n int) {
	t.Helper()
	if got := count(outcomes); got[kind] != n {
		t.Errorf("%v, want %d %s", got, n, kind)
	}
}

func TestSubscribersShareRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		ctx, cancel := context.WithCancel(t.Context())
		var readers sync.WaitGroup
		took := make([]atomic.Int64, 3)
		for i := range took {
			s := target.Subscribe("a")
			readers.Go(func() {
				defer s.Close()
				readDeliveries(ctx, s, &took[i], time.Millisecond, nil)
			})
		}
		outcomes := target.Lane(1).Deliver(ctx, rings("a", 30*maxDelivery), limits())
		wantOutcomes(t, outcomes, clock.Confirmed, 30*maxDelivery)
		for i := range took {
			if n := took[i].Load(); n < 8*maxDelivery {
				t.Errorf("subscriber %d took %d of %d rings", i, n, 30*maxDelivery)
			}
		}
		cancel()
		readers.Wait()
	})
}

// The only subscriber gets the rings in the order of the claim.
func TestLoneSubscriberGetsRingsInOrder(t *testing.T) {
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
				d.Done(len(d.Rings), len(d.Rings), nil)
			}
		})
		target.Lane(1).Deliver(t.Context(), rings("a", 3*maxDelivery), limits())
		reader.Wait()
		if !slices.IsSorted(got) {
			t.Errorf("out of order: %v", got)
		}
	})
}

func TestWithoutSubscriberRingsAreUnsent(t *testing.T) {
	target := New()
	if target.Accepts("a") == nil {
		t.Error("accepted without a subscriber")
	}
	wantOutcomes(t, target.Lane(1).Deliver(t.Context(), rings("a", 3), limits()), clock.Unsent, 3)
}

func TestAcceptsWhileSubscribed(t *testing.T) {
	target := New()
	first, second := target.Subscribe("a"), target.Subscribe("a")
	select {
	case <-target.Changed():
	default:
		t.Error("Changed was not signalled when a subscriber came")
	}
	first.Close()
	first.Close() // counts once
	if target.Accepts("a") != nil || target.Accepts("b") == nil || target.Subscribers() != 1 || target.Usable() != nil {
		t.Errorf("after the first of two subscribers left: accepts %v, subscribers %d", target.Accepts("a"),
			target.Subscribers())
	}
	second.Close()
	if target.Accepts("a") == nil || target.Subscribers() != 0 || len(target.outlets) != 0 {
		t.Errorf("after both subscribers left: accepts %v, subscribers %d", target.Accepts("a"), target.Subscribers())
	}
	third := target.Subscribe("a")
	second.Close() // its outlet is gone
	if target.Accepts("a") != nil {
		t.Error("an old subscription closed a new one's outlet")
	}
	third.Close()
}

// A subscriber that does not read delays only its own application.
func TestStalledSubscriberDelaysNoOtherApplication(t *testing.T) {
	for range 8 { // Deliver takes the applications in random order
		synctest.Test(t, testStalledSubscriber)
	}
}

func testStalledSubscriber(t *testing.T) {
	target := New()
	lazy, busy := target.Subscribe("lazy"), target.Subscribe("busy")
	defer lazy.Close()
	defer busy.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var took atomic.Int64
	var readers sync.WaitGroup
	began := time.Now()
	var last time.Duration
	readers.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case d := <-busy.Deliveries():
				took.Add(int64(len(d.Rings)))
				last = time.Since(began)
				d.Done(len(d.Rings), len(d.Rings), nil)
			}
		}
	})
	outcomes := target.Lane(1).Deliver(ctx, append(rings("lazy", 100), rings("busy", 200)...), limits())
	wantOutcomes(t, outcomes[:100], clock.Untaken, 100)
	wantOutcomes(t, outcomes[100:], clock.Confirmed, 200)
	if last != 0 || time.Since(began) != patience {
		t.Errorf("the other application waited %s, the delivery took %s", last, time.Since(began))
	}
	cancel()
	readers.Wait()
}

// There are two subscribers. When one stalls, the other takes all rings.
func TestOtherSubscriberTakesAllRings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		lazy, busy := target.Subscribe("a"), target.Subscribe("a")
		defer lazy.Close()
		defer busy.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var took atomic.Int64
		var readers sync.WaitGroup
		readers.Go(func() { readDeliveries(ctx, busy, &took, 0, nil) })
		wantOutcomes(t, target.Lane(1).Deliver(ctx, rings("a", 300), limits()), clock.Confirmed, 300)
		cancel()
		readers.Wait()
	})
}

// When the last subscriber leaves, the rings that it did not take are unsent at once.
func TestLastSubscriberGoneMakesRestUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		time.AfterFunc(patience/2, func() {
			d := <-s.Deliveries()
			s.Close()
			d.Done(0, len(d.Rings), errors.New("broken pipe"))
		})
		began := time.Now()
		outcomes := target.Lane(1).Deliver(t.Context(), rings("a", maxDelivery+10), limits())
		wantOutcomes(t, outcomes, clock.Doubtful, maxDelivery)
		wantOutcomes(t, outcomes, clock.Unsent, 10)
		if took := time.Since(began); took != patience/2 {
			t.Errorf("took %s", took)
		}
	})
}

// Rings that were taken and not reported by the reply limit are in doubt. A later report changes no outcome.
func TestUnreportedRingsAreInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		taken := make(chan clock.Delivery, 1)
		var reader sync.WaitGroup
		reader.Go(func() { taken <- <-s.Deliveries() })
		began := time.Now()
		outcomes := target.Lane(1).Deliver(t.Context(), rings("a", 5), limits())
		wantOutcomes(t, outcomes, clock.Doubtful, 5)
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("took %s", took)
		}
		reader.Wait()
		(<-taken).Done(5, 5, nil)
		wantOutcomes(t, outcomes, clock.Doubtful, 5)
	})
}

func TestEndOfContextMakesRestUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, func() {
			<-s.Deliveries()
			cancel()
		})
		outcomes := target.Lane(1).Deliver(ctx, rings("a", maxDelivery+1), limits())
		wantOutcomes(t, outcomes, clock.Doubtful, maxDelivery)
		wantOutcomes(t, outcomes, clock.Unsent, 1)
	})
}

// After the write limit no ring is handed over, although a subscriber waits.
func TestNoRingIsHandedOverAfterWriteBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 50 { // a select takes any ready case
			target := New()
			s := target.Subscribe("a")
			ctx, cancel := context.WithCancel(t.Context())
			var took atomic.Int64
			var readers sync.WaitGroup
			readers.Go(func() { readDeliveries(ctx, s, &took, 0, nil) })
			synctest.Wait()
			past := ring.Limits{WriteBy: time.Now().Add(-time.Millisecond), ReplyBy: time.Now().Add(time.Second)}
			wantOutcomes(t, target.Lane(1).Deliver(ctx, rings("a", 3*maxDelivery), past), clock.Confirmed, 0)
			if took.Load() != 0 {
				t.Fatalf("%d rings were handed over after the limit", took.Load())
			}
			cancel()
			readers.Wait()
			s.Close()
		}
	})
}

// Subscribers come and go while lanes deliver. The number of confirmed rings is the number that subscribers took.
func TestOutcomesAgreeWithSubscribersThatComeAndGo(t *testing.T) {
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
						d.Done(len(d.Rings), len(d.Rings), nil)
					case <-ctx.Done():
					}
				}
				s.Close()
			}
		})
	}
	for i := range 4 {
		lanes.Go(func() {
			lane := target.Lane(1)
			for range 50 {
				batch := append(rings("app0", 100), rings("app1", 50+i)...)
				limits := ring.Limits{WriteBy: time.Now().Add(20 * time.Millisecond),
					ReplyBy: time.Now().Add(5 * time.Second)}
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
	if took.Load() != confirmed.Load() || target.Subscribers() != 0 || len(target.outlets) != 0 {
		t.Errorf("took %d, confirmed %d, %d subscribers", took.Load(), confirmed.Load(), target.Subscribers())
	}
}

// lateLimits returns the limits of a batch of healthy applications. It sets late to the rings that are awaited.
func lateLimits(late *ring.LateRings) ring.Limits {
	l := limits()
	l.Shared, l.Await = true, func(rings ring.LateRings) { *late = rings }
	return l
}

// wantTook checks how long something took that began at the given time.
func wantTook(t *testing.T, began time.Time, want time.Duration) {
	t.Helper()
	if took := time.Since(began); took != want {
		t.Errorf("took %s, want %s", took, want)
	}
}

// TestSlowSubscriberIsNotWaitedFor delivers to a subscriber that reports after a second and to another one that reports
// at once. The first delivery ends after patience, the next ones at once, until the slow subscriber has reported
// quickly.
func TestSlowSubscriberIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		slow, quick := target.Subscribe("slow"), target.Subscribe("quick")
		defer slow.Close()
		defer quick.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var took atomic.Int64
		var readers sync.WaitGroup
		pause := time.Second
		readers.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case d := <-slow.Deliveries():
					time.Sleep(pause)
					d.Done(len(d.Rings), len(d.Rings), nil)
				}
			}
		})
		readers.Go(func() { readDeliveries(ctx, quick, &took, 0, nil) })
		deliver := func(want time.Duration) ring.LateRings {
			t.Helper()
			synctest.Wait()
			var late ring.LateRings
			began := time.Now()
			outcomes := target.Lane(1).Deliver(ctx, append(rings("slow", 5), rings("quick", 100)...), lateLimits(&late))
			wantTook(t, began, want)
			wantOutcomes(t, outcomes[5:], clock.Confirmed, 100)
			if late == nil {
				wantOutcomes(t, outcomes[:5], clock.Confirmed, 5)
				return nil
			}
			wantOutcomes(t, outcomes[:5], clock.Awaited, 5)
			return late
		}
		late := deliver(patience)
		wantOutcomes(t, late.Outcomes(), clock.Awaited, 5)
		time.Sleep(time.Second)
		wantOutcomes(t, late.Outcomes(), clock.Confirmed, 105)
		pause = patience / 2
		late = deliver(0)
		time.Sleep(pause)
		synctest.Wait()
		wantOutcomes(t, late.Outcomes(), clock.Confirmed, 105)
		late.End()
		if deliver(pause) != nil {
			t.Error("rings of a subscriber that is quick again are awaited")
		}
		cancel()
		readers.Wait()
	})
}

// A shared batch waits for patience, however steadily a subscriber reports. A round of the quarantine waits for
// patience after each report, up to maxPatience.
func TestSubscriberThatReportsSteadilyIsWaitedFor(t *testing.T) {
	for _, c := range []struct {
		shared bool
		pause  time.Duration
		want   map[clock.OutcomeKind]int
	}{
		{true, patience / 10, map[clock.OutcomeKind]int{clock.Confirmed: 8 * maxDelivery}},
		{true, 2 * patience / 5,
			map[clock.OutcomeKind]int{clock.Confirmed: 2 * maxDelivery, clock.Awaited: maxDelivery,
				clock.Untaken: 5 * maxDelivery}},
		{false, maxPatience / 10, map[clock.OutcomeKind]int{clock.Confirmed: 8 * maxDelivery}},
		{false, maxPatience / 3,
			map[clock.OutcomeKind]int{clock.Confirmed: 3 * maxDelivery, clock.Awaited: maxDelivery,
				clock.Untaken: 4 * maxDelivery}},
	} {
		synctest.Test(t, func(t *testing.T) {
			target := New()
			s := target.Subscribe("a")
			defer s.Close()
			ctx, cancel := context.WithCancel(t.Context())
			var took atomic.Int64
			var readers sync.WaitGroup
			readers.Go(func() { readDeliveries(ctx, s, &took, c.pause, nil) })
			var late ring.LateRings
			l := lateLimits(&late)
			l.Shared = c.shared
			if got := count(target.Lane(1).Deliver(ctx, rings("a", 8*maxDelivery), l)); !maps.Equal(got, c.want) {
				t.Errorf("shared %t, a report every %s: %v, want %v", c.shared, c.pause, got, c.want)
			}
			cancel()
			readers.Wait()
		})
	}
}

// Rings that no subscriber has taken within patience are untaken. A shared batch does not wait for a slow outlet at
// all.
func TestUntakenRingsAreGivenUpSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		var late ring.LateRings
		l := lateLimits(&late)
		deliver := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			wantOutcomes(t, target.Lane(1).Deliver(t.Context(), rings("a", 5), l), clock.Untaken, 5)
			wantTook(t, began, want)
		}
		deliver(patience)
		deliver(0)
		l.Shared = false
		deliver(patience)
		if late != nil {
			t.Error("untaken rings are awaited")
		}
	})
}

// A report says how many rings were written and begun. Written rings are confirmed, begun ones are in doubt, and the
// others are unsent.
func TestReportDecidesEachRing(t *testing.T) {
	broken := errors.New("broken pipe")
	for _, c := range []struct {
		written, begun int
		err            error
	}{{5, 5, nil}, {2, 2, broken}, {2, 3, broken}, {2, 5, broken}, {0, 0, broken}, {0, 1, broken}, {0, 5, broken}} {
		synctest.Test(t, func(t *testing.T) {
			target := New()
			s := target.Subscribe("a")
			defer s.Close()
			var reader sync.WaitGroup
			reader.Go(func() { (<-s.Deliveries()).Done(c.written, c.begun, c.err) })
			outcomes := target.Lane(1).Deliver(t.Context(), rings("a", 5), limits())
			wantOutcomes(t, outcomes[:c.written], clock.Confirmed, c.written)
			wantOutcomes(t, outcomes[c.written:c.begun], clock.Doubtful, c.begun-c.written)
			wantOutcomes(t, outcomes[c.begun:], clock.Unsent, 5-c.begun)
			reader.Wait()
		})
	}
}

// A subscriber gets few large rings at once. A ring that is larger than the bound goes alone.
func TestLargeRingsComeInSmallDeliveries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var sizes []int
		var reader sync.WaitGroup
		reader.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case d := <-s.Deliveries():
					sizes = append(sizes, len(d.Rings))
					d.Done(len(d.Rings), len(d.Rings), nil)
				}
			}
		})
		batch := rings("a", 12)
		for i := range batch {
			batch[i].Payload = make([]byte, maxDeliveryBytes/4)
		}
		batch[4].Payload = make([]byte, 2*maxDeliveryBytes)
		wantOutcomes(t, target.Lane(1).Deliver(ctx, batch, limits()), clock.Confirmed, 12)
		cancel()
		reader.Wait()
		if want := []int{4, 1, 4, 3}; !slices.Equal(sizes, want) {
			t.Errorf("deliveries of %v rings, want %v", sizes, want)
		}
	})
}

// The end of the wait for late rings ends the writes of their subscribers.
func TestEndOfAwaitedRingsEndsTheirWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		taken := make(chan clock.Delivery, 1)
		go func() { taken <- <-s.Deliveries() }()
		var late ring.LateRings
		target.Lane(1).Deliver(t.Context(), rings("a", 5), lateLimits(&late))
		d := <-taken
		if d.Context.Err() != nil {
			t.Error("the writes end while the rings are awaited")
		}
		late.End()
		if d.Context.Err() == nil {
			t.Error("the writes go on after the end of the wait")
		}
		d.Done(0, len(d.Rings), d.Context.Err())
	})
}

// The outcomes of awaited rings follow the subscriber's reports, until the wait is ended. The end takes the reports
// that have come. After it rings without a report are in doubt, also if they were not begun.
func TestAwaitedRingsFollowTheReport(t *testing.T) {
	for _, c := range []struct {
		written, begun int
		report         error
		want           clock.OutcomeKind
	}{{5, 5, nil, clock.Confirmed}, {0, 0, errors.New("too late"), clock.Unsent}, {0, 5, errors.New("broken pipe"), clock.Doubtful}} {
		for _, end := range []string{"never", "before the report", "after the report"} {
			synctest.Test(t, func(t *testing.T) {
				target := New()
				s := target.Subscribe("a")
				defer s.Close()
				taken := make(chan clock.Delivery, 1)
				go func() { taken <- <-s.Deliveries() }()
				var late ring.LateRings
				wantOutcomes(t, target.Lane(1).Deliver(t.Context(), rings("a", 5), lateLimits(&late)), clock.Awaited, 5)
				want := c.want
				if end == "before the report" {
					late.End()
					want = clock.Doubtful
				}
				(<-taken).Done(c.written, c.begun, c.report)
				if end == "after the report" {
					late.End()
				}
				wantOutcomes(t, late.Outcomes(), want, 5)
				late.End()
				wantOutcomes(t, late.Outcomes(), want, 5)
				if late.Stuck() {
					t.Error("a subscriber is never stuck: its write deadline ends its connection")
				}
			})
		}
	}
}

// A batch whose context has ended awaits nothing.
func TestNoRingIsAwaitedAfterTheEndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		s := target.Subscribe("a")
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, func() {
			<-s.Deliveries()
			cancel()
		})
		var late ring.LateRings
		wantOutcomes(t, target.Lane(1).Deliver(ctx, rings("a", 3), lateLimits(&late)), clock.Doubtful, 3)
		if late != nil {
			t.Error("rings are awaited after the caller has left")
		}
	})
}

// Subscribers that do not report hold at most a quarter of ring.HandedBytes for one application. Another application's
// subscriber gets its rings.
func TestUnreadStreamsHoldBoundedMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		target := New()
		const each = maxDeliveryBytes
		var given []clock.Delivery
		var mu sync.Mutex
		var readers sync.WaitGroup
		ctx, leave := context.WithCancel(t.Context())
		subscribe := func(application string) {
			s := target.Subscribe(application)
			readers.Go(func() {
				defer s.Close()
				select {
				case d := <-s.Deliveries():
					mu.Lock()
					given = append(given, d)
					mu.Unlock()
				case <-ctx.Done():
				}
				<-ctx.Done()
			})
		}
		deliver := func(application string, n int) map[clock.OutcomeKind]int {
			rs := rings(application, n)
			for i := range rs {
				rs[i].Payload = make([]byte, each)
			}
			l := limits()
			l.Await = func(ring.LateRings) {}
			return count(target.Lane(1).Deliver(t.Context(), rs, l))
		}
		for range 40 {
			subscribe("shop")
		}
		subscribe("bank")
		synctest.Wait()
		const most = ring.HandedBytes/4/each - 1 // a ring takes a little beside its payload
		if got := deliver("shop", 40); got[clock.Awaited] != most || got[clock.Untaken] != 40-most {
			t.Errorf("outcomes %v, want %d handed over", got, most)
		}
		if got := deliver("bank", 1); got[clock.Awaited] != 1 {
			t.Errorf("outcomes of another application: %v", got)
		}
		mu.Lock()
		first := given[0]
		mu.Unlock()
		first.Done(1, 1, nil)
		if got := deliver("shop", 2); got[clock.Awaited] != 1 || got[clock.Untaken] != 1 {
			t.Errorf("outcomes after a report: %v", got)
		}
		leave()
		readers.Wait()
		for _, d := range given[1:] {
			d.Done(0, 0, context.Canceled)
		}
	})
}
