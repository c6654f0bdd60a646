package main

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// delayed is a topology for delayed messages: senders publish to source, and clockd publishes each message to target at
// its time.
type delayed struct {
	*testBroker
	ch                            *amqp.Channel
	source, queue, target, letter string
}

// delayedMessages declares the topology. The queues behind target and letter have the exchanges' names.
func delayedMessages(t *testing.T) *delayed {
	t.Helper()
	b := dialBroker(t, amqpURL())
	ch, err := b.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	d := &delayed{testBroker: b, ch: ch, source: b.exchange + ".source", queue: b.exchange + ".delayed",
		target: b.exchange + ".target", letter: b.exchange + ".letter"}
	for exchange, queue := range map[string]string{d.source: d.queue, d.target: d.target, d.letter: d.letter} {
		d.must(ch.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
		d.must(err)
		d.must(ch.QueueBind(queue, "#", exchange, false, nil))
		t.Cleanup(func() {
			_, _ = ch.QueueDelete(queue, false, false, false)
			_ = ch.ExchangeDelete(exchange, false, false)
		})
	}
	d.must(ch.Confirm(false))
	return d
}

func (d *delayed) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *delayed) env() []string {
	return append(d.testBroker.env(), "CLOCKD_INTAKE_QUEUE="+d.queue, "CLOCKD_INTAKE_EXCHANGE="+d.target,
		"CLOCKD_INTAKE_DEAD_LETTERS="+d.letter)
}

// publish publishes a message to source, and returns when the broker has it.
func (d *delayed) publish(p amqp.Publishing) {
	d.t.Helper()
	p.DeliveryMode = amqp.Persistent
	confirm, err := d.ch.PublishWithDeferredConfirm(d.source, "order.cancel", true, false, p)
	d.must(err)
	if !confirm.Wait() {
		d.t.Fatal("the broker refused a message")
	}
}

// arrivals are the messages that a queue has got, by message id.
type arrivals struct {
	mu  sync.Mutex
	got map[string][]arrival
}

type arrival struct {
	amqp.Delivery
	at time.Time
}

// take consumes a queue of the topology until the test ends.
func (d *delayed) take(queue string) *arrivals {
	d.t.Helper()
	ch, err := d.conn.Channel()
	d.must(err)
	messages, err := ch.Consume(queue, "", true, false, false, false, nil)
	d.must(err)
	a := &arrivals{got: map[string][]arrival{}}
	go func() {
		for m := range messages {
			at := time.Now()
			a.mu.Lock()
			a.got[m.MessageId] = append(a.got[m.MessageId], arrival{m, at})
			a.mu.Unlock()
		}
	}()
	return a
}

func (a *arrivals) of(id string) []arrival {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]arrival(nil), a.got[id]...)
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.got)
}

// A node is killed while it takes messages and rings. Every message arrives at its time, as it was, and all its copies
// are rings of one alarm.
func TestDelayedMessagesArriveAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL, d := e.open(t), delayedMessages(t)
			env := append(d.env(), "CLOCKD_DATABASE_URL="+databaseURL)
			survivor := start(t, env...)
			victim := survivor
			if e.name != "sqlite" { // a file has one node
				victim = start(t, env...)
			}
			got := d.take(d.target)
			const messages = 400
			var due [messages]time.Time
			for i := range messages {
				delay := time.Duration(500+i*37%2500) * time.Millisecond
				due[i] = time.Now().Add(delay)
				d.publish(amqp.Publishing{
					MessageId: fmt.Sprint("m", i), Body: fmt.Append(nil, i), Type: "order", CorrelationId: "c",
					Headers: amqp.Table{"x-delay": int32(delay.Milliseconds()), "number": int64(i)},
				})
				if i == messages/2 {
					eventually(t, "messages arrive", func() bool { return got.count() > messages/20 })
					victim.kill()
					if victim == survivor {
						survivor = start(t, env...)
					}
				}
			}
			eventually(t, "every message arrives", func() bool { return got.count() == messages })
			eventually(t, "every alarm is over",
				func() bool { return survivor.inState("intake", clock.Rung) == messages })
			copies := 0
			for i := range messages {
				rings := got.of(fmt.Sprint("m", i))
				copies += len(rings) - 1
				for _, r := range rings {
					if r.at.Before(due[i]) {
						t.Errorf("message %d arrived %s early", i, due[i].Sub(r.at))
					}
					if r.RoutingKey != "order.cancel" || string(r.Body) != fmt.Sprint(i) || r.Type != "order" ||
						r.CorrelationId != "c" ||
						r.Headers["number"] != int64(i) || alarmOf(r) != alarmOf(rings[0]) {
						t.Errorf("message %d has changed: %+v", i, r.Delivery)
					}
				}
			}
			eventually(t, "the queue is empty", func() bool {
				q, err := d.ch.QueueDeclarePassive(d.queue, true, false, false, false, nil)
				d.must(err)
				return q.Messages == 0
			})
			t.Logf("%d messages, %d copies", messages, copies)
		})
	}
}

// alarmOf returns the id of the alarm that an arrival is a ring of.
func alarmOf(a arrival) string {
	id, _ := a.Headers["x-clockd-message-id"].(string)
	alarm, _, _ := strings.Cut(id, ".")
	return alarm
}

// Consumers publish a message again under its message id as soon as they have it, to try later: as it was first
// published, with another header, or as it arrived. clockd may not have recorded the ring yet. No try is lost, early or
// a dead letter.
func TestConsumerMayPublishADelayedMessageAgain(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			d := delayedMessages(t)
			start(t, append(d.env(), "CLOCKD_DATABASE_URL="+e.open(t))...)
			letters := d.take(d.letter)
			consuming, err := d.conn.Channel()
			d.must(err)
			messages, err := consuming.Consume(d.target, "", true, false, false, false, nil)
			d.must(err)
			const delay, chains, tries = 20 * time.Millisecond, 30, 10
			published, got := map[string]time.Time{}, map[string]int{}
			again := func(id string, headers amqp.Table) {
				headers["x-delay"] = delay.Milliseconds()
				published[id] = time.Now()
				d.must(d.ch.Publish(d.source, "order.cancel", true, false,
					amqp.Publishing{MessageId: id, Headers: headers, Body: []byte("body")}))
			}
			for i := range chains {
				again(fmt.Sprint(i), amqp.Table{})
			}
			guard := time.After(giveUpAfter)
			for arrived := 0; arrived < chains*tries; arrived++ {
				select {
				case m := <-messages:
					if early := delay - time.Since(published[m.MessageId]); early > 0 {
						t.Errorf("try %d of %s is %s early", got[m.MessageId], m.MessageId, early)
					}
					if got[m.MessageId]++; got[m.MessageId] == tries {
						continue
					}
					headers := amqp.Table{}
					switch m.MessageId[len(m.MessageId)-1] % 3 {
					case 0:
						headers["try"] = int64(got[m.MessageId])
					case 1:
						headers = m.Headers
					}
					again(m.MessageId, headers)
				case <-guard:
					t.Fatalf("%d messages of %d arrived, %d dead letters: %v", arrived, chains*tries, letters.count(),
						got)
				}
			}
			if letters.count() != 0 {
				t.Errorf("%d dead letters", letters.count())
			}
		})
	}
}

// A message with ids is an alarm like any other: it is read, cancelled, and set once.
func TestDelayedMessageIsCancelledByItsIDs(t *testing.T) {
	t.Parallel()
	d := delayedMessages(t)
	p := start(t, append(d.env(), "CLOCKD_DATABASE_URL="+sqliteFile(t))...)
	got, letters := d.take(d.target), d.take(d.letter)
	headers := func(id string, delay int64) amqp.Table {
		return amqp.Table{"x-application": "shop", "x-business-id": id, "x-delay": delay}
	}
	const fiftyDays = 50 * 24 * 60 * 60 * 1000 // more than the plugin for delayed messages can wait
	for range 2 {
		d.publish(amqp.Publishing{MessageId: "cancelled", Headers: headers("order-1", 3000), Body: []byte("one")})
		d.publish(amqp.Publishing{MessageId: "long", Headers: headers("order-2", fiftyDays), Body: []byte("two")})
	}
	d.publish(amqp.Publishing{MessageId: "other", Headers: headers("order-2", 1), Body: []byte("another")})
	eventually(t, "the other message is a dead letter", func() bool { return letters.count() == 1 })
	if l := letters.of("other"); len(l) != 1 || l[0].Headers["x-clockd-code"] != "id_taken" {
		t.Errorf("dead letters: %+v", l)
	}
	p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "order-1"), nil)
	var long struct {
		State   string `json:"state"`
		Base64  string `json:"base64"`
		Message struct {
			Exchange   string `json:"exchange"`
			RoutingKey string `json:"routing_key"`
		} `json:"message"`
		RingAt time.Time `json:"ring_at"`
	}
	if status, _, err := p.decode(http.MethodGet, alarmPath("shop", "order-2"), nil, &long); status != http.StatusOK ||
		err != nil {
		t.Fatal(status, err)
	}
	if left := time.Until(long.RingAt); long.State != "scheduled" || long.Base64 != "dHdv" ||
		long.Message.Exchange != d.target ||
		long.Message.RoutingKey != "order.cancel" || left < 49*24*time.Hour || left > 50*24*time.Hour {
		t.Errorf("the alarm of the long message: %+v", long)
	}
	d.publish(amqp.Publishing{MessageId: "last", Headers: amqp.Table{"x-delay": int64(4000)}}) // rings after the cancelled one would have
	eventually(t, "the last message arrives", func() bool { return got.count() > 0 })
	if n := len(got.of("cancelled")); n != 0 || got.count() != 1 {
		t.Errorf("%d copies of the cancelled message, %d messages in all", n, got.count())
	}
	if n := p.metric(`clockd_rabbit_intake_messages_total{result="duplicate"}`); n != 2 {
		t.Errorf("%v duplicates, want 2", n)
	}
}
