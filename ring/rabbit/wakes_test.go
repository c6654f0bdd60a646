package rabbit

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// listener is one node's Wakes, with the calls of heard and missed.
type listener struct {
	*Wakes
	bodies chan string
	missed chan struct{}
}

// listen starts a listener. It runs until the end of the test, or until stop is called.
func listen(tb testing.TB, cfg Config) (l *listener, stop func()) {
	tb.Helper()
	s, err := New(cfg,
		Deps{Log: slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		tb.Fatal(err)
	}
	l = &listener{bodies: make(chan string, 10_000), missed: make(chan struct{}, 100)}
	l.Wakes = s.Wakes(func(body []byte) { l.bodies <- string(body) }, func() { l.missed <- struct{}{} })
	stop = rabbittest.Background(tb, l.Run)
	tb.Cleanup(stop)
	return l, stop
}

// follow follows the shards and waits until all are bound. At least one must be new.
func (l *listener) follow(tb testing.TB, shards ...int) {
	tb.Helper()
	wire.Drain(l.missed)
	l.Follow(shards)
	l.awaitMissed(tb)
}

// awaitMissed waits for a call of missed.
func (l *listener) awaitMissed(tb testing.TB) {
	tb.Helper()
	select {
	case <-l.missed:
	case <-time.After(rabbittest.HangGuard):
		tb.Fatal("missed was not called")
	}
}

// hears fails unless exactly these bodies arrive next.
func (l *listener) hears(tb testing.TB, want ...string) {
	tb.Helper()
	for _, body := range want {
		select {
		case got := <-l.bodies:
			if got != body {
				tb.Fatalf("heard %q, want %q", got, body)
			}
		case <-time.After(rabbittest.HangGuard):
			tb.Fatalf("%q was not heard", body)
		}
	}
	if len(l.bodies) > 0 {
		tb.Fatalf("heard %q, too", <-l.bodies)
	}
}

// wakesOf returns a configuration for wake-ups over b. The end of the test deletes their exchange.
func wakesOf(tb testing.TB, b *rabbittest.Broker) Config {
	tb.Cleanup(func() {
		b.Channel()
		b.Must(b.Ch.ExchangeDelete(b.Exchange+".wake", false, false))
	})
	return configOf(b)
}

func TestWakeUpsReachEveryFollowerOfTheShard(t *testing.T) {
	t.Parallel()
	cfg := wakesOf(t, rabbittest.Shared(t))
	one, _ := listen(t, cfg)
	two, _ := listen(t, cfg)
	one.follow(t, 1, 2)
	two.follow(t, 3)
	one.Send(3, []byte("a"))
	two.Send(1, []byte("b"))
	one.Send(2, []byte("c")) // to itself
	one.Send(9, []byte("to nobody"))
	two.hears(t, "a")
	rabbittest.Eventually(t, 5*time.Second, "both wake-ups", func() bool { return len(one.bodies) == 2 })
	if got := []string{<-one.bodies, <-one.bodies}; !slices.Contains(got, "b") || !slices.Contains(got, "c") {
		t.Errorf("heard %q", got)
	}

	// a shard moves: first both nodes receive its wake-ups, later only the new owner
	two.follow(t, 3, 1)
	one.Send(1, []byte("d"))
	one.hears(t, "d")
	two.hears(t, "d")
	one.follow(t, 2, 4) // missed is called after the old shard is unbound, too
	two.Send(1, []byte("e"))
	two.Send(4, []byte("f"))
	two.hears(t, "e")
	one.hears(t, "f")
	for _, l := range []*listener{one, two} {
		if len(l.s.Warnings()) > 0 || len(l.missed) > 0 {
			t.Errorf("warnings %q, missed %d", l.s.Warnings(), len(l.missed))
		}
	}
	m := one.s.metrics // a wake-up may arrive before its sender has counted it
	rabbittest.Eventually(t, rabbittest.HangGuard, "four wake-ups are counted", func() bool {
		return testutil.ToFloat64(m.wakesSent) == 4 && testutil.ToFloat64(m.wakesReceived) == 4
	})
}

func TestWakeUpsArriveOneByOne(t *testing.T) {
	t.Parallel()
	cfg := wakesOf(t, rabbittest.Shared(t))
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
}

// A burst that is larger than the queue drops the oldest wake-ups, and never blocks.
func TestOldestWakeUpsAreDroppedFirst(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
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
	run := rabbittest.Background(t, one.Run)
	rabbittest.Eventually(t, 10*time.Second, "all queued wake-ups", func() bool { return len(two.bodies) == wakeQueue })
	run()
	if first := <-two.bodies; first != "10" {
		t.Errorf("the first is %q", first)
	}
}

func TestWakeUpsComeBackAfterCuts(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := wakesOf(t, b)
	one, _ := listen(t, cfg)
	p, via := rabbittest.ProxyTo(t, b.URL)
	cfg.URL = via
	two, _ := listen(t, cfg)
	two.follow(t, 5, 6)
	for range 3 {
		wire.Drain(two.missed)
		p.Cut()
		two.awaitMissed(t) // now the bindings exist
		one.Send(5, []byte("there"))
		two.hears(t, "there")
		two.Send(6, []byte("and back"))
		two.hears(t, "and back")
	}
	wire.Drain(two.missed)
	p.Cut()
	two.Follow([]int{8}) // while the connection is down
	two.awaitMissed(t)
	one.Send(5, []byte("not followed any more"))
	one.Send(8, []byte("followed"))
	two.hears(t, "followed")
}

// The broker stalls. Send does not block, and wake-ups work again when the broker continues.
func TestWakeUpsDoNotBlockOnASilentBroker(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := wakesOf(t, b)
	p, via := rabbittest.ProxyTo(t, b.URL)
	cfg.URL, cfg.WriteTimeout = via, 300*time.Millisecond
	one, _ := listen(t, cfg)
	one.follow(t, 1)
	p.Stall(true)
	body := []byte(strings.Repeat("x", 64<<10))
	for range 2 * wakeQueue { // while the broker takes nothing
		one.Send(1, body)
	}
	rabbittest.Eventually(t, 5*time.Second, "the connection was given up",
		func() bool { return len(one.s.Warnings()) == 1 })
	p.Stall(false)
	one.awaitMissed(t)
	rabbittest.Eventually(t, 10*time.Second, "no warnings", func() bool { return one.s.Warnings() == nil })
	if n := testutil.ToFloat64(one.s.metrics.wakesDropped); n < wakeQueue/2 {
		t.Errorf("%v were dropped", n)
	}
}

// After a deletion of the exchange, Run declares it again and wake-ups work again.
func TestWakeUpsSurviveADeletedExchange(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := wakesOf(t, b)
	one, _ := listen(t, cfg)
	one.follow(t, 1)
	b.Must(b.Ch.ExchangeDelete(b.Exchange+".wake", false, false))
	one.Send(1, []byte("lost")) // the broker closes the channel
	one.awaitMissed(t)
	one.Send(1, []byte("a"))
	one.hears(t, "a")
}

// Wake-ups sent before the end arrive.
func TestQueuedWakeUpsAreSentBeforeTheEnd(t *testing.T) {
	t.Parallel()
	cfg := wakesOf(t, rabbittest.Shared(t))
	one, stop := listen(t, cfg)
	two, _ := listen(t, cfg)
	one.follow(t, 1)
	two.follow(t, 2)
	for range 500 {
		one.Send(2, []byte("x"))
	}
	stop()
	rabbittest.Eventually(t, 5*time.Second, "all wake-ups", func() bool { return len(two.bodies) == 500 })
}

func TestWakeExchangeOfAnotherTypeCausesAWarning(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := wakesOf(t, b)
	b.Must(b.Ch.ExchangeDeclare(b.Exchange+".wake", amqp.ExchangeFanout, true, false, false, false, nil))
	one, _ := listen(t, cfg)
	rabbittest.Eventually(t, 5*time.Second, "a warning", func() bool {
		w := one.s.Warnings()
		return len(w) == 1 && strings.Contains(w[0], "a second late") &&
			strings.Contains(w[0], "not as a durable direct exchange")
	})
	b.Must(b.Ch.ExchangeDelete(b.Exchange+".wake", false, false))
	one.follow(t, 1)
	if w := one.s.Warnings(); w != nil {
		t.Errorf("warnings %q", w)
	}
}

// A message whose headers the library would not read ends no connection of wake-ups: the next wake-up arrives over the
// same one.
func TestUnreadableHeadersStopNoWakeUps(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	l, _ := listen(t, wakesOf(t, b))
	l.follow(t, 1)
	b.Channel()
	for _, headers := range rabbittest.Unreadable() {
		b.Must(b.Ch.Publish(b.Exchange+".wake", "1", false, false,
			amqp.Publishing{Headers: headers, Body: []byte("unreadable")}))
	}
	b.Must(b.Ch.Publish(b.Exchange+".wake", "1", false, false, amqp.Publishing{Body: []byte("readable")}))
	l.hears(t, "unreadable", "unreadable", "unreadable", "readable")
	if len(l.missed) > 0 {
		t.Error("the connection was lost")
	}
}

// A message over the bound is not held in memory, and later wake-ups arrive.
func TestWakeUpOverTheBoundArrivesWithoutBody(t *testing.T) {
	t.Parallel()
	l, _ := listen(t, wakesOf(t, rabbittest.Shared(t)))
	l.follow(t, 7)
	l.Send(7, []byte(strings.Repeat("x", maxWakeBody)))
	l.Send(7, []byte(strings.Repeat("x", maxWakeBody+1)))
	l.Send(7, []byte("behind it"))
	for _, want := range []int{maxWakeBody, 0, len("behind it")} {
		select {
		case body := <-l.bodies:
			if len(body) != want {
				t.Errorf("a body of %d bytes, want %d", len(body), want)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no wake-up")
		}
	}
}
