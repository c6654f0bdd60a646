package rabbittest

import (
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"cmp"
	"fmt"
	"maps"
	"os"
	"testing"
	"time"
)

// SharedURL is the URL of the broker that the tests of all packages share. Tests use unique names for their exchanges
// and queues.
var SharedURL = cmp.Or(os.Getenv("CLOCKD_TEST_AMQP_URL"), "amqp://guest:guest@127.0.0.1:23672/")

// Broker is a test's own connection to a broker, with an exchange for this test only.
type Broker struct {
	TB       testing.TB
	URL      string
	Conn     *amqp.Connection
	Ch       *amqp.Channel
	Exchange string // the end of the test deletes it
}

// Open connects to the broker at url until the end of the test. The test or its session declares the exchange.
func Open(tb testing.TB, url string) *Broker {
	tb.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		tb.Fatalf("no RabbitMQ for the tests (start it with \"make up\"): %v", err)
	}
	b := &Broker{TB: tb, URL: url, Conn: conn, Exchange: Unique("clock")}
	b.Channel()
	tb.Cleanup(func() {
		b.Channel()
		if err := b.Ch.ExchangeDelete(b.Exchange, false, false); err != nil {
			tb.Errorf("delete exchange: %v", err)
		}
		_ = b.Conn.Close()
	})
	return b
}

// Redial connects again after the broker has died.
func (b *Broker) Redial() {
	b.TB.Helper()
	conn, err := amqp.Dial(b.URL)
	b.Must(err)
	b.Conn = conn
	b.Channel()
}

// Shared opens the shared broker.
func Shared(tb testing.TB) *Broker {
	tb.Helper()
	return Open(tb, SharedURL)
}

// IsRabbitMQ3 reports whether the broker is older than RabbitMQ 4.
func (b *Broker) IsRabbitMQ3() bool {
	return strings.HasPrefix(fmt.Sprint(b.Conn.Properties["version"]), "3.")
}

// Channel opens a new channel, because a wanted error may have closed the last one.
func (b *Broker) Channel() {
	b.TB.Helper()
	ch, err := b.Conn.Channel()
	b.Must(err)
	b.Ch = ch
}

// Must fails the test if there is an error.
func (b *Broker) Must(err error) {
	b.TB.Helper()
	if err != nil {
		b.TB.Fatal(err)
	}
}

// Queue declares a queue and binds it for application. The end of the test deletes it.
func (b *Broker) Queue(application string, args amqp.Table) string {
	b.TB.Helper()
	name := Unique("queue")
	_, err := b.Ch.QueueDeclare(name, true, false, false, false, args)
	b.Must(err)
	b.TB.Cleanup(func() { b.Remove(name) })
	b.Must(b.Ch.QueueBind(name, application, b.Exchange, false, nil))
	return name
}

// Remove deletes a queue.
func (b *Broker) Remove(queue string) {
	b.Channel()
	if _, err := b.Ch.QueueDelete(queue, false, false, false); err != nil {
		b.TB.Errorf("delete queue: %v", err)
	}
}

// Quorum holds the arguments of a quorum queue.
var Quorum = amqp.Table{"x-queue-type": "quorum"}

// Take waits for n messages in queue and returns them.
func (b *Broker) Take(queue string, n int) []amqp.Delivery {
	b.TB.Helper()
	var got []amqp.Delivery
	Eventually(b.TB, 10*time.Second, fmt.Sprintf("%d messages in the queue", n), func() bool {
		for len(got) < n {
			d, ok, err := b.Ch.Get(queue, true)
			b.Must(err)
			if !ok {
				return false
			}
			got = append(got, d)
		}
		return true
	})
	return got
}

// Arrived takes all messages from queue and returns the number of messages for each message id.
func (b *Broker) Arrived(queue string) map[string]int {
	b.TB.Helper()
	n := map[string]int{}
	for {
		d, ok, err := b.Ch.Get(queue, true)
		b.Must(err)
		if !ok {
			return n
		}
		n[d.MessageId]++
	}
}

// Empty fails if there is a message in queue.
func (b *Broker) Empty(queue string) {
	b.TB.Helper()
	if d, ok, err := b.Ch.Get(queue, true); err != nil || ok {
		b.TB.Fatalf("queue is not empty: %q %v", d.MessageId, err)
	}
}

// OtherExchange declares a topic exchange with a queue that is bound with a key. The end of the test deletes both.
func (b *Broker) OtherExchange(key string) (exchange, queue string) {
	b.TB.Helper()
	exchange, queue = Unique("other"), Unique("queue")
	b.Must(b.Ch.ExchangeDeclare(exchange, amqp.ExchangeTopic, true, false, false, false, nil))
	b.TB.Cleanup(func() {
		b.Channel()
		_ = b.Ch.ExchangeDelete(exchange, false, false)
	})
	_, err := b.Ch.QueueDeclare(queue, true, false, false, false, nil)
	b.Must(err)
	b.TB.Cleanup(func() { b.Remove(queue) })
	b.Must(b.Ch.QueueBind(queue, key, exchange, false, nil))
	return exchange, queue
}

// Limited returns the arguments of a quorum queue that drops a message after its second redelivery. Like a queue from
// RabbitMQ 3 on RabbitMQ 4, such a queue refuses clockd's declaration.
func Limited(more amqp.Table) amqp.Table {
	args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 2}
	maps.Copy(args, more)
	return args
}
