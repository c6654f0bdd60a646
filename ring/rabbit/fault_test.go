package rabbit

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

func TestMissingConfirmIsInDoubt(t *testing.T) {
	b := shared(t)
	p, via := through(t, b.url)
	cfg := b.config()
	cfg.URL = via
	cfg.ProbeTimeout = 20 * time.Second // the lane alone shall notice
	s := ready(t, cfg)
	queue := b.queue("shop", quorum)
	l := laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	b.take(queue, 1)

	p.stall(true)
	batch, limits := rings("shop", 100), within(200*time.Millisecond, 400*time.Millisecond)
	outcomes := l.Deliver(t.Context(), batch, limits)
	late := time.Since(limits.Answer)
	all(t, outcomes, clock.Doubtful)
	if outcomes[0].Reason != "no confirm in time" || late < 0 || late > 100*time.Millisecond {
		t.Errorf("reason %q, %s after the limit", outcomes[0].Reason, late)
	}
	if l.link != nil {
		t.Error("a connection with rings in doubt is kept")
	}
	p.stall(false)
	all(t, l.Deliver(t.Context(), batch, usual()), clock.Confirmed) // on a new connection
	arrived := b.arrived(queue)
	for i := range batch {
		if arrived[batch[i].MessageID()] == 0 {
			t.Errorf("ring %d is lost", i)
		}
	}
}

// More than the socket's buffers hold: the write itself stalls.
func TestStalledWriteSplitsUnsentFromInDoubt(t *testing.T) {
	b := shared(t)
	p, via := through(t, b.url)
	cfg := b.config()
	cfg.URL = via
	cfg.ProbeTimeout = 20 * time.Second
	s := ready(t, cfg)
	queue := b.queue("shop", nil)
	l := laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	b.take(queue, 1)
	p.stall(true)
	batch := rings("shop", 600)
	payload := []byte(strings.Repeat("x", 64<<10))
	for i := range batch {
		batch[i].Payload = payload
	}
	limits := within(300*time.Millisecond, 600*time.Millisecond)
	outcomes := l.Deliver(t.Context(), batch, limits)
	if late := time.Since(limits.Answer); late > 200*time.Millisecond {
		t.Errorf("%s after the limit", late)
	}
	p.stall(false)
	n := count(outcomes)
	if n[clock.Doubtful] == 0 || n[clock.Unsent] == 0 || n[clock.Doubtful]+n[clock.Unsent] != 600 {
		t.Fatalf("outcomes %v", n)
	}
	for i := 1; i < 600; i++ {
		if outcomes[i-1].Kind == clock.Unsent && outcomes[i].Kind != clock.Unsent {
			t.Fatalf("ring %d is unsent, the next is %+v", i-1, outcomes[i])
		}
	}
	// what is unsent never arrives, even when the broker gets all that was on its way
	all(t, laneOf(t, s).Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	arrived := b.arrived(queue)
	for i, o := range outcomes {
		if o.Kind == clock.Unsent && arrived[batch[i].MessageID()] > 0 {
			t.Errorf("ring %d is unsent and has arrived", i)
		}
	}
}

// A frame of the library's own (a heartbeat) hangs in its write and holds the locks that a delivery needs.
func TestStuckFrameDoesNotHoldADelivery(t *testing.T) {
	b := shared(t)
	p, via := through(t, b.url)
	cfg := b.config()
	cfg.URL = via
	cfg.ProbeTimeout, cfg.WriteTimeout = 20*time.Second, time.Minute
	s := ready(t, cfg)
	b.queue("shop", nil)
	l := laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	p.stall(true)
	stuck := make(chan error)
	wire := l.link.wire
	go func() {
		_, err := wire.Write(make([]byte, 64<<20))
		stuck <- err
	}()
	eventually(t, 5*time.Second, "the write hangs", func() bool {
		locked := !wire.mu.TryLock()
		if !locked {
			wire.mu.Unlock()
		}
		return locked
	})
	limits := within(200*time.Millisecond, 400*time.Millisecond)
	all(t, l.Deliver(t.Context(), rings("shop", 5), limits), clock.Unsent)
	if late := time.Since(limits.Answer); late > 100*time.Millisecond {
		t.Errorf("%s after the limit", late)
	}
	if err := <-stuck; err == nil {
		t.Error("the stuck write succeeded")
	}
	p.stall(false)
	all(t, l.Deliver(t.Context(), rings("shop", 5), usual()), clock.Confirmed)
}

// The connection is cut at random places of a batch, again and again: what was confirmed is in the queue, what was unsent
// is not, and nothing is lost when the rest is repeated.
func TestNothingConfirmedIsLostOverCuts(t *testing.T) {
	for name, through := range map[string]func(testing.TB, string) (*proxy, string){"plain": through, "tls": throughTLS} {
		t.Run(name, func(t *testing.T) {
			b := shared(t)
			p, via := through(t, b.url)
			cuts(t, b, p, via)
		})
	}
}

func cuts(t *testing.T, b *broker, p *proxy, via string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cfg := b.config()
	cfg.URL = via
	s := ready(t, cfg)
	queue := b.queue("shop", quorum)
	l := laneOf(t, s)
	confirmed, unsent, kinds, first := map[string]bool{}, map[string]bool{}, map[clock.OutcomeKind]int{}, map[string]bool{}
	for round := range 40 {
		usable(t, s, 10*time.Second)
		batch := rings("shop", 100)
		for i := range batch {
			batch[i].Payload = make([]byte, random.IntN(2000))
		}
		if round%4 != 0 {
			p.cutAfter(random.Int64N(200_000))
		} else {
			cut := time.AfterFunc(time.Duration(random.IntN(8000))*time.Microsecond, p.cut)
			t.Cleanup(func() { cut.Stop() })
		}
		for i, o := range l.Deliver(t.Context(), batch, usual()) {
			id := batch[i].MessageID()
			kinds[o.Kind]++
			first[id] = true
			confirmed[id], unsent[id] = o.Kind == clock.Confirmed, o.Kind == clock.Unsent
			if o.Kind == clock.Nacked || o.Kind == clock.Returned || o.Kind == clock.Refused {
				t.Fatalf("a cut made %+v", o)
			}
		}
	}
	t.Logf("outcomes %v", kinds)
	if kinds[clock.Confirmed] == 0 || kinds[clock.Doubtful] == 0 || kinds[clock.Unsent] == 0 {
		t.Errorf("the cuts were not mixed enough: %v", kinds)
	}
	p.cutAfter(-1)
	usable(t, s, 10*time.Second)
	marker := rings("shop", 1)
	eventually(t, 10*time.Second, "a last ring", func() bool {
		return l.Deliver(t.Context(), marker, usual())[0].Kind == clock.Confirmed
	})
	arrived := b.arrived(queue)
	for id := range first {
		switch {
		case confirmed[id] && arrived[id] == 0:
			t.Errorf("%s is confirmed and lost", id)
		case unsent[id] && arrived[id] > 0:
			t.Errorf("%s is unsent and has arrived", id)
		}
	}
}
