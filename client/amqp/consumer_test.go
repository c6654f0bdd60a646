package amqp_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	driver "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/client/amqp"
	"github.com/clockd/clockd/client/internal/clockdtest"
)

// brokerURL is the URL of the tests' RabbitMQ; make test-client starts it.
var brokerURL = cmp.Or(os.Getenv("CLOCKD_TEST_AMQP_URL"), "amqp://guest:guest@127.0.0.1:23672/")

// hangGuard ends a test that hangs.
const hangGuard = 30 * time.Second

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hangGuard); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// open returns a channel to the broker, and the name of an exchange that ends with the test, like the queues that begin
// with its name.
func open(t *testing.T, queues ...string) (ch *driver.Channel, exchange string) {
	t.Helper()
	conn, err := driver.Dial(brokerURL)
	if err != nil {
		t.Fatalf("no RabbitMQ for the tests: %v", err)
	}
	ch, err = conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	exchange = fmt.Sprintf("test-consumer-%d-%d", os.Getpid(), time.Now().UnixNano())
	t.Cleanup(func() {
		for _, name := range queues {
			_, _ = ch.QueueDelete(exchange+"."+name, false, false, false)
		}
		_ = ch.ExchangeDelete(exchange, false, false)
		_ = ch.ExchangeDelete(exchange+".wake", false, false)
		_, _ = ch.QueueDelete(exchange+".answers", false, false, false)
		_ = conn.Close()
	})
	return ch, exchange
}

// program is the path of clockd.
var program string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clockd-client-amqp")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if program, err = clockdtest.Build(dir); err != nil {
		panic(err)
	}
	return m.Run()
}

// service runs clockd on SQLite and the broker, and returns its client.
func service(t *testing.T, exchange string) *client.Client {
	t.Helper()
	s, err := clockdtest.Start(program, filepath.Join(t.TempDir(), "clockd.db"), clockdtest.Log(t),
		"CLOCKD_AMQP_URL="+brokerURL, "CLOCKD_AMQP_EXCHANGE="+exchange)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() })
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// handled counts the rings that a handler got, by message id.
type handled struct {
	mu    sync.Mutex
	rings map[string]int
	last  *amqp.Ring
}

func (h *handled) add(r *amqp.Ring) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rings == nil {
		h.rings = map[string]int{}
	}
	h.rings[r.MessageID]++
	h.last = r
}

func (h *handled) number() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.rings)
}

// consume runs a consumer until the test ends, or until stop is called.
func consume(t *testing.T, application string, k amqp.Consumer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- amqp.Consume(ctx, application, k) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("consume: %v", err)
			}
		case <-time.After(hangGuard):
			t.Error("consume does not end")
		}
	})
	t.Cleanup(stop)
	return stop
}

// relay forwards connections to the broker, and can cut them.
type relay struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns []net.Conn
}

// relayed returns a relay, and the URL that leads through it.
func relayed(t *testing.T) (*relay, string) {
	t.Helper()
	u, err := url.Parse(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, target: u.Host}
	t.Cleanup(func() {
		_ = l.Close()
		r.cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", r.target)
			if err != nil {
				_ = c.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, c, b)
			r.mu.Unlock()
			go func() { _, _ = io.Copy(b, c); _ = b.Close() }()
			go func() { _, _ = io.Copy(c, b); _ = c.Close() }()
		}
	}()
	u.Host = l.Addr().String()
	return r, u.String()
}

// cut ends all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		_ = c.Close()
	}
	r.conns = nil
}

// Each ring of a real service is handled once and answered, also when the consumer's connections are cut again and again.
func TestRingsOfAServiceAreHandledAndAnswered(t *testing.T) {
	_, exchange := open(t, "shop")
	c := service(t, exchange)
	r, through := relayed(t)
	var got handled
	consume(t, "shop", amqp.Consumer{
		URL: through, Exchange: exchange, Concurrency: 4, By: "worker-7",
		Handle: func(_ context.Context, r *amqp.Ring) client.Answer {
			got.add(r)
			return client.Answer{Kind: client.Acked}
		},
	})
	const alarms = 200
	for i := range alarms {
		_, err := c.Set(t.Context(), "shop", fmt.Sprint("order/", i), client.Set{
			When: client.After(time.Duration(i*5) * time.Millisecond), Payload: client.Text("cancel"),
			AckTimeout: time.Minute,
			If:         client.Absent, // so that the client repeats a set that the busy service refuses
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		r.cut()
	}
	for i := range alarms {
		id := fmt.Sprint("order/", i)
		eventually(t, id+" is acknowledged", func() bool {
			a, err := c.Get(t.Context(), "shop", id)
			return err == nil && a.State == client.Rung && a.Answer == client.Acked && a.AnsweredBy == "worker-7"
		})
	}
	got.mu.Lock()
	defer got.mu.Unlock()
	for id, n := range got.rings {
		if n != 1 {
			t.Errorf("ring %s was handled %d times", id, n)
		}
	}
	if last := got.last; len(got.rings) != alarms || !last.NeedsAnswer || string(last.Payload) != "cancel" ||
		last.Generation != 1 || last.RingNo != 1 ||
		!strings.HasPrefix(last.BusinessID, "order/") || last.RingAt.IsZero() {
		t.Errorf("%d rings; the last is %+v", len(got.rings), last)
	}
}

// publish publishes a message to the application's queue.
func publish(t *testing.T, ch *driver.Channel, exchange string, p driver.Publishing) {
	t.Helper()
	if err := ch.PublishWithContext(t.Context(), exchange, "shop", true, false, p); err != nil {
		t.Fatal(err)
	}
}

// A copy is not handled again. It repeats the answer, because the first answer may have been lost.
func TestCopiesRepeatTheAnswer(t *testing.T) {
	ch, exchange := open(t, "shop")
	answers, err := ch.QueueDeclare("", false, true, true, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got handled
	consume(t, "shop", amqp.Consumer{URL: brokerURL, Exchange: exchange, Handle: func(_ context.Context, r *amqp.Ring) client.Answer {
		got.add(r)
		return client.Answer{Kind: client.Released, Delay: time.Minute, Reason: "no stock"}
	}})
	eventually(t, "the queue exists", func() bool { return bound(t, exchange) })
	at := time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC)
	ring := driver.Publishing{
		MessageId: "17.2.3", CorrelationId: "order", ReplyTo: answers.Name, Body: []byte("x"),
		Headers: driver.Table{
			"x-occurrence": int64(5), "x-occurrence-at": at.UnixMilli(),
			"x-occurrence-previous-at": at.Add(-time.Hour).UnixMilli(),
		},
	}
	publish(t, ch, exchange, ring)
	publish(t, ch, exchange, ring)
	for range 2 {
		var answer driver.Delivery
		eventually(t, "an answer", func() (found bool) {
			answer, found, err = ch.Get(answers.Name, true)
			return found
		})
		if answer.Type != "alarm.release" || answer.CorrelationId != "17.2.3" ||
			answer.Headers["x-delay"] != int64(60_000) ||
			answer.Headers["x-reason"] != "no stock" || answer.DeliveryMode != driver.Persistent {
			t.Errorf("answer %+v", answer)
		}
	}
	if got.rings["17.2.3"] != 1 || got.last.Generation != 2 || got.last.RingNo != 3 {
		t.Errorf("handled %v, %+v", got.rings, got.last)
	}
	if o := got.last.Occurrence; o == nil || o.Number != 5 || !o.At.Equal(at) ||
		!o.PreviousAt.Equal(at.Add(-time.Hour)) || !o.NextAt.IsZero() {
		t.Errorf("the occurrence is %+v", o)
	}
}

// An answer names who gave it: the answer's own name, else the name of the consumer, else the user of the URL.
func TestAnswersNameTheUserOfTheURL(t *testing.T) {
	_, exchange := open(t, "own", "consumer", "user")
	c := service(t, exchange)
	u, err := url.Parse(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	user := u.User.Username()
	for application, consumer := range map[string]struct{ by, answerBy, want string }{
		"own":      {by: "worker-7", answerBy: "ann", want: "ann"},
		"consumer": {by: "worker-7", want: "worker-7"},
		"user":     {want: user},
	} {
		consume(t, application, amqp.Consumer{URL: brokerURL, Exchange: exchange, By: consumer.by,
			Handle: func(context.Context, *amqp.Ring) client.Answer {
				return client.Answer{Kind: client.Acked, By: consumer.answerBy}
			}})
		if _, err := c.Set(t.Context(), application, "x",
			client.Set{When: client.After(0), AckTimeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		eventually(t, application+" is answered by "+consumer.want, func() bool {
			a, err := c.Get(t.Context(), application, "x")
			return err == nil && a.State == client.Rung && a.AnsweredBy == consumer.want
		})
	}
}

// The broker confirms an answer whose queue does not exist. The fault is told, and the answer is repeated until the queue exists.
func TestAnswerToAMissingQueueIsRepeated(t *testing.T) {
	ch, exchange := open(t, "shop")
	var got handled
	faults := make(chan error, 100)
	consume(t, "shop", amqp.Consumer{
		URL: brokerURL, Exchange: exchange,
		Handle: func(_ context.Context, r *amqp.Ring) client.Answer {
			got.add(r)
			return client.Answer{Kind: client.Acked}
		},
		Failed: func(err error) { faults <- err },
	})
	eventually(t, "the queue exists", func() bool { return bound(t, exchange) })
	queue := exchange + ".answers"
	publish(t, ch, exchange, driver.Publishing{MessageId: "17.2.3", CorrelationId: "order", ReplyTo: queue})
	select {
	case err := <-faults:
		if !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("the fault is %v", err)
		}
	case <-time.After(hangGuard):
		t.Fatal("the lost answer is not told")
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the answer", func() bool {
		answer, found, err := ch.Get(queue, true)
		return err == nil && found && answer.CorrelationId == "17.2.3"
	})
	if len(faults) > 1 || got.rings["17.2.3"] != 1 {
		t.Errorf("%d further faults; handled %v", len(faults), got.rings)
	}
}

// bound reports whether the consumer has declared and bound its queue.
func bound(t *testing.T, exchange string) bool {
	t.Helper()
	conn, err := driver.Dial(brokerURL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	q, err := ch.QueueDeclarePassive(exchange+".shop", true, false, false, false, nil)
	return err == nil && q.Consumers == 1
}

// A message that is no ring is rejected and reported. The next ring is handled.
func TestOtherMessagesAreRejected(t *testing.T) {
	ch, exchange := open(t, "shop")
	var got handled
	var mu sync.Mutex
	var faults []error
	consume(t, "shop", amqp.Consumer{
		URL: brokerURL, Exchange: exchange,
		Handle: func(_ context.Context, r *amqp.Ring) client.Answer {
			got.add(r)
			return client.Answer{}
		},
		Failed: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			faults = append(faults, err)
		},
	})
	eventually(t, "the queue exists", func() bool { return bound(t, exchange) })
	for _, id := range []string{"", "x", "1.2", "1.x.1", "1.1.x", "1.1.1"} {
		publish(t, ch, exchange, driver.Publishing{MessageId: id, CorrelationId: "order"})
	}
	eventually(t, "the ring is handled", func() bool { return got.number() == 1 })
	mu.Lock()
	defer mu.Unlock()
	if len(faults) != 5 {
		t.Errorf("%d faults: %v", len(faults), errors.Join(faults...))
	}
}

// When the context ends, rings that were read are handled. A handler that does not end is given up after Drain, and its message comes again.
func TestConsumeDrains(t *testing.T) {
	ch, exchange := open(t, "shop")
	began := make(chan struct{}, 10)
	stop := consume(t, "shop", amqp.Consumer{
		URL: brokerURL, Exchange: exchange, Drain: 200 * time.Millisecond,
		Handle: func(ctx context.Context, _ *amqp.Ring) client.Answer {
			began <- struct{}{}
			<-ctx.Done()
			return client.Answer{}
		},
	})
	eventually(t, "the queue exists", func() bool { return bound(t, exchange) })
	publish(t, ch, exchange, driver.Publishing{MessageId: "1.1.1", CorrelationId: "order"})
	<-began
	stop()
	eventually(t, "the message is back", func() bool {
		d, found, err := ch.Get(exchange+".shop", true)
		return err == nil && found && d.MessageId == "1.1.1" && d.Redelivered
	})
}

func TestWrongConsumersAreRefused(t *testing.T) {
	handle := func(context.Context, *amqp.Ring) client.Answer { return client.Answer{} }
	for name, c := range map[string]struct {
		application string
		consumer    amqp.Consumer
	}{
		"no handler":     {"shop", amqp.Consumer{URL: brokerURL}},
		"no URL":         {"shop", amqp.Consumer{Handle: handle}},
		"no application": {"", amqp.Consumer{URL: brokerURL, Handle: handle}},
	} {
		if err := amqp.Consume(t.Context(), c.application, c.consumer); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
