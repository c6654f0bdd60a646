package rabbit

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"
)

// listener is a node's wake-ups with all that they told.
type listener struct {
	*Wakes
	bodies chan string
	missed chan struct{}
}

// listen returns wake-ups over cfg that run until the test ends, or until stop is called.
func listen(tb testing.TB, cfg Config) (l *listener, stop func()) {
	tb.Helper()
	s, err := New(cfg, Deps{Logger: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		tb.Fatal(err)
	}
	l = &listener{bodies: make(chan string, 10_000), missed: make(chan struct{}, 100)}
	l.Wakes = s.Wakes(func(body []byte) { l.bodies <- string(body) }, func() { l.missed <- struct{}{} })
	stop = background(tb, l.Run)
	tb.Cleanup(stop)
	return l, stop
}

// background calls run and returns what ends it and waits for that.
func background(tb testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stopped := false
	return func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("run: %v", err)
			}
		case <-time.After(8 * time.Second):
			tb.Error("run does not end")
		}
	}
}

// follow waits until the shards are heard; at least one must be new.
func (l *listener) follow(tb testing.TB, shards ...int) {
	tb.Helper()
	drain(l.missed)
	l.Follow(shards)
	l.told(tb)
}

// told waits for a call of missed.
func (l *listener) told(tb testing.TB) {
	tb.Helper()
	select {
	case <-l.missed:
	case <-time.After(10 * time.Second):
		tb.Fatal("missed was not called")
	}
}

// hears fails unless exactly these bodies are the next to arrive.
func (l *listener) hears(tb testing.TB, want ...string) {
	tb.Helper()
	for _, body := range want {
		select {
		case got := <-l.bodies:
			if got != body {
				tb.Fatalf("heard %q, want %q", got, body)
			}
		case <-time.After(5 * time.Second):
			tb.Fatalf("%q was not heard", body)
		}
	}
	if len(l.bodies) > 0 {
		tb.Fatalf("heard %q, too", <-l.bodies)
	}
}

// wakesOf opens the broker for wake-ups; their exchange is deleted with the test.
func wakesOf(tb testing.TB, b *broker) Config {
	tb.Cleanup(func() {
		b.channel()
		b.must(b.ch.ExchangeDelete(b.exchange+".wake", false, false))
	})
	return b.config()
}

func TestWakeUpsReachWhoFollowsTheShard(t *testing.T) {
	cfg := wakesOf(t, shared(t))
	one, _ := listen(t, cfg)
	two, _ := listen(t, cfg)
	one.follow(t, 1, 2)
	two.follow(t, 3)
	one.Send(3, []byte("a"))
	two.Send(1, []byte("b"))
	one.Send(2, []byte("c")) // to itself
	one.Send(9, []byte("to nobody"))
	two.hears(t, "a")
	eventually(t, 5*time.Second, "both", func() bool { return len(one.bodies) == 2 })
	if got := []string{<-one.bodies, <-one.bodies}; !slices.Contains(got, "b") || !slices.Contains(got, "c") {
		t.Errorf("heard %q", got)
	}

	// a shard moves: for a while both hear it, and what is sent after that only its new owner
	two.follow(t, 3, 1)
	one.Send(1, []byte("d"))
	one.hears(t, "d")
	two.hears(t, "d")
	one.follow(t, 2, 4) // told of the added one when the other is unbound, too
	two.Send(1, []byte("e"))
	two.Send(4, []byte("f"))
	two.hears(t, "e")
	one.hears(t, "f")
	for _, l := range []*listener{one, two} {
		if len(l.s.Warnings()) > 0 || len(l.missed) > 0 {
			t.Errorf("warnings %q, missed %d", l.s.Warnings(), len(l.missed))
		}
	}
	m := one.s.metrics
	if sent, received := testutil.ToFloat64(m.wakesSent), testutil.ToFloat64(m.wakesReceived); sent != 4 || received != 4 {
		t.Errorf("sent %v, received %v", sent, received)
	}
}

func TestWakeUpsAreFast(t *testing.T) {
	cfg := wakesOf(t, shared(t))
	one, _ := listen(t, cfg)
	two, _ := listen(t, cfg)
	two.follow(t, 7)
	var took []time.Duration
	for i := range 200 {
		body, began := fmt.Sprint(i), time.Now()
		one.Send(7, []byte(body))
		two.hears(t, body)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("median %s, p99 %s, longest %s", took[100], took[198], took[199])
	if took[100] > 20*time.Millisecond {
		t.Errorf("half of the wake-ups take more than %s", took[100])
	}
}

// A burst beyond the queue drops the oldest, and never blocks.
func TestWakeUpsAreDroppedOldestFirst(t *testing.T) {
	b := shared(t)
	cfg := wakesOf(t, b)
	one, stop := listen(t, cfg)
	one.follow(t, 1)
	stop()
	for i := range wakeQueue + 10 {
		one.Send(1, []byte(fmt.Sprint(i)))
	}
	if n := testutil.ToFloat64(one.s.metrics.wakesDropped); n != 10 {
		t.Errorf("%v were dropped", n)
	}
	two, _ := listen(t, cfg)
	two.follow(t, 1)
	run := background(t, one.Run)
	eventually(t, 10*time.Second, "all that waited", func() bool { return len(two.bodies) == wakeQueue })
	run()
	if first := <-two.bodies; first != "10" {
		t.Errorf("the first is %q", first)
	}
}

func TestWakeUpsComeBackAfterCuts(t *testing.T) {
	b := shared(t)
	cfg := wakesOf(t, b)
	one, _ := listen(t, cfg)
	p, via := through(t, b.url)
	cfg.URL = via
	two, _ := listen(t, cfg)
	two.follow(t, 5, 6)
	for range 3 {
		drain(two.missed)
		p.cut()
		two.told(t) // and the bindings are there
		one.Send(5, []byte("there"))
		two.hears(t, "there")
		two.Send(6, []byte("and back"))
		two.hears(t, "and back")
	}
	drain(two.missed)
	p.cut()
	two.Follow([]int{8}) // while it is away
	two.told(t)
	one.Send(5, []byte("not followed any more"))
	one.Send(8, []byte("followed"))
	two.hears(t, "followed")
}

// The broker stalls: Send goes on without blocking, and it is over when the broker is back.
func TestWakeUpsDoNotBlockOnASilentBroker(t *testing.T) {
	b := shared(t)
	cfg := wakesOf(t, b)
	p, via := through(t, b.url)
	cfg.URL, cfg.WriteTimeout = via, 300*time.Millisecond
	one, _ := listen(t, cfg)
	one.follow(t, 1)
	p.stall(true)
	body := []byte(strings.Repeat("x", 64<<10))
	began := time.Now()
	for range 2 * wakeQueue {
		one.Send(1, body)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("sending took %s", took)
	}
	eventually(t, 5*time.Second, "the connection was given up", func() bool { return len(one.s.Warnings()) == 1 })
	p.stall(false)
	one.told(t)
	eventually(t, 10*time.Second, "all is well", func() bool { return one.s.Warnings() == nil })
	if n := testutil.ToFloat64(one.s.metrics.wakesDropped); n < wakeQueue/2 {
		t.Errorf("%v were dropped", n)
	}
}

// Whoever deletes the exchange does not end wake-ups for good.
func TestWakeUpsAreSetUpAgain(t *testing.T) {
	b := shared(t)
	cfg := wakesOf(t, b)
	one, _ := listen(t, cfg)
	one.follow(t, 1)
	b.must(b.ch.ExchangeDelete(b.exchange+".wake", false, false))
	one.Send(1, []byte("lost")) // the broker closes the channel
	one.told(t)
	one.Send(1, []byte("a"))
	one.hears(t, "a")
}

// What was sent before the end arrives.
func TestWakeUpsLeaveBeforeTheEnd(t *testing.T) {
	cfg := wakesOf(t, shared(t))
	one, stop := listen(t, cfg)
	two, _ := listen(t, cfg)
	one.follow(t, 1)
	two.follow(t, 2)
	for range 500 {
		one.Send(2, []byte("x"))
	}
	stop()
	eventually(t, 5*time.Second, "all", func() bool { return len(two.bodies) == 500 })
}

func TestForeignWakeExchangeIsWarnedOf(t *testing.T) {
	b := shared(t)
	cfg := wakesOf(t, b)
	b.must(b.ch.ExchangeDeclare(b.exchange+".wake", amqp.ExchangeFanout, true, false, false, false, nil))
	one, _ := listen(t, cfg)
	eventually(t, 5*time.Second, "a warning", func() bool {
		w := one.s.Warnings()
		return len(w) == 1 && strings.Contains(w[0], "a second late") && strings.Contains(w[0], "not as a durable direct exchange")
	})
	b.must(b.ch.ExchangeDelete(b.exchange+".wake", false, false))
	one.follow(t, 1)
	if w := one.s.Warnings(); w != nil {
		t.Errorf("warnings %q", w)
	}
}
