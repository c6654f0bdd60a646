package rabbit

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
)

func TestMissingConfirmIsInDoubt(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	queue := b.Queue("shop", rabbittest.Quorum)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	b.Take(queue, 1)

	p.Stall(true)
	batch, limits := rings("shop", 100), shortLimits()
	outcomes := openAndDeliver(t.Context(), l, batch, limits)
	late := time.Since(limits.ReplyBy)
	wantAll(t, outcomes, clock.Doubtful)
	if outcomes[0].Reason != "no confirm in time" || late < 0 {
		t.Errorf("reason %q, %s after the limit", outcomes[0].Reason, late)
	}
	if l.link != nil {
		t.Error("the lane keeps a connection with rings in doubt")
	}
	p.Stall(false)
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed) // on a new connection
	arrived := b.Arrived(queue)
	for i := range batch {
		if arrived[batch[i].MessageID()] == 0 {
			t.Errorf("ring %d is lost", i)
		}
	}
}

// The batch is larger than the socket's buffers, so the write itself stalls.
func TestStalledWriteSeparatesUnsentFromInDoubt(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	queue := b.Queue("shop", nil)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	b.Take(queue, 1)
	p.Stall(true)
	batch := rings("shop", 600)
	payload := []byte(strings.Repeat("x", 64<<10))
	for i := range batch {
		batch[i].Payload = payload
	}
	limits := within(time.Second, 1500*time.Millisecond)
	outcomes := openAndDeliver(t.Context(), l, batch, limits)
	t.Logf("%s after the limit", time.Since(limits.ReplyBy)) // and before the stall ended
	p.Stall(false)
	n := count(outcomes)
	if n[clock.Doubtful] == 0 || n[clock.Unsent] == 0 || n[clock.Doubtful]+n[clock.Unsent] != 600 {
		t.Fatalf("outcomes %v", n)
	}
	for i := 1; i < 600; i++ {
		if outcomes[i-1].Kind == clock.Unsent && outcomes[i].Kind != clock.Unsent {
			t.Fatalf("ring %d is unsent, the next is %+v", i-1, outcomes[i])
		}
	}
	// unsent rings never arrive, even after the broker has read all bytes from the buffers
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), rings("shop", 1), ampleLimits()), clock.Confirmed)
	arrived := b.Arrived(queue)
	for i, o := range outcomes {
		if o.Kind == clock.Unsent && arrived[batch[i].MessageID()] > 0 {
			t.Errorf("ring %d is unsent and has arrived", i)
		}
	}
}

// A frame of the library, like a heartbeat, hangs in its write and holds the locks that a delivery needs.
func TestStuckFrameDoesNotDelayADelivery(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	cfg.WriteTimeout = 2 * rabbittest.HangGuard
	s := startUsable(t, cfg)
	b.Queue("shop", nil)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	stuck := make(chan error, 1)
	link := l.link
	ch, err := link.PlainChannel()
	if err != nil {
		t.Fatal(err)
	}
	p.Stall(true)
	go func() { stuck <- ch.Publish("", "nowhere", false, false, amqp.Publishing{Body: make([]byte, 64<<20)}) }()
	var asked sync.WaitGroup
	defer asked.Wait()
	rabbittest.Eventually(t, 5*time.Second, "the write hangs", func() bool {
		told := make(chan struct{})
		asked.Go(func() { link.Sent(); close(told) })
		select {
		case <-told:
			return false
		case <-time.After(100 * time.Millisecond):
			return true
		}
	})
	limits := within(200*time.Millisecond, 400*time.Millisecond)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 5), limits), clock.Unsent)
	t.Logf("%s after the limit", time.Since(limits.ReplyBy)) // and before the stall ended
	if err := <-stuck; err == nil {
		t.Error("the stuck write succeeded")
	}
	p.Stall(false)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 5), ampleLimits()), clock.Confirmed)
}

// The connection is cut repeatedly, at random places of a batch. Confirmed rings are in the queue, and unsent rings are
// not.
func TestConfirmedRingsSurviveCuts(t *testing.T) {
	t.Parallel()
	for name, startProxy := range map[string]func(testing.TB, string) (*rabbittest.Proxy, string){
		"plain": rabbittest.ProxyTo, "tls": rabbittest.ProxyToTLS,
	} {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.Shared(t)
			p, via := startProxy(t, b.URL)
			cuts(t, b, p, via)
		})
	}
}

func cuts(t *testing.T, b *rabbittest.Broker, p *rabbittest.Proxy, via string) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cfg := configOf(b)
	cfg.URL = via
	s := startUsable(t, cfg)
	queue := b.Queue("shop", rabbittest.Quorum)
	l := laneOf(t, s)
	confirmed, unsent, kinds, first := map[string]bool{}, map[string]bool{}, map[clock.OutcomeKind]int{}, map[string]bool{}
	for round := range 40 {
		waitUsable(t, s, 10*time.Second)
		batch := rings("shop", 100)
		for i := range batch {
			batch[i].Payload = make([]byte, random.IntN(2000))
		}
		if round%4 != 0 {
			p.CutAfter(random.Int64N(200_000))
		} else {
			cut := time.AfterFunc(time.Duration(random.IntN(8000))*time.Microsecond, p.Cut)
			t.Cleanup(func() { cut.Stop() })
		}
		for i, o := range openAndDeliver(t.Context(), l, batch, ampleLimits()) {
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
	p.CutAfter(-1)
	waitUsable(t, s, 10*time.Second)
	marker := rings("shop", 1)
	rabbittest.Eventually(t, 10*time.Second, "a last ring", func() bool {
		return openAndDeliver(t.Context(), l, marker, ampleLimits())[0].Kind == clock.Confirmed
	})
	arrived := b.Arrived(queue)
	for id := range first {
		switch {
		case confirmed[id] && arrived[id] == 0:
			t.Errorf("%s is confirmed and lost", id)
		case unsent[id] && arrived[id] > 0:
			t.Errorf("%s is unsent and has arrived", id)
		}
	}
}
