package amqp

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/client/internal/once"
)

// Handler does the work of a ring, and returns the answer to it. An Answer without Kind is no answer: an alarm that
// waits for one rings again after its ack_timeout, under a new message id. If the ring needs no answer, the answer has
// no effect. ctx ends when Consume stops waiting for its rings.
type Handler func(ctx context.Context, r *Ring) client.Answer

// Consumer says how Consume handles rings. URL and Handle are required. A field that is zero has its default.
type Consumer struct {
	URL         string // amqp://user:password@host:5672/vhost, or amqps://
	Handle      Handler
	Exchange    string        // exchange of the service; default clock
	Queue       string        // an existing queue that is bound already; default: Exchange.application is declared and bound
	Concurrency int           // calls of Handle at once; default 1: rings are handled in the order of their arrival
	Prefetch    int           // most messages that wait for Handle; default 100
	Memory      int           // message ids that are remembered, to recognize copies; default 100,000, which take about 10 MB
	Drain       time.Duration // time for the rings that were read, after the end of the context; default 10 s
	By          string        // name of this program in answers; default: the user of the URL, unless auth_mechanism=EXTERNAL
	// Failed is told each fault after which Consume goes on. Several goroutines may call it at once. Default: faults
	// are ignored.
	Failed func(error)
}

// Defaults of a Consumer.
const (
	defaultExchange = "clock"
	defaultPrefetch = 100
	defaultMemory   = 100_000
	defaultDrain    = 10 * time.Second

	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// confirmTime is the longest wait for the confirm of an answer.
	confirmTime = 10 * time.Second
	// answerPause is the wait before a message whose answer the broker did not take goes back to its queue.
	answerPause = time.Second
)

func (k Consumer) withDefaults(application string) (Consumer, error) {
	if k.Handle == nil {
		return k, errors.New("a consumer needs Handle")
	}
	uri, err := amqp.ParseURI(k.URL)
	if err != nil {
		return k, fmt.Errorf("URL: %w", err)
	}
	if application == "" {
		return k, errors.New("a consumer needs an application")
	}
	if k.By == "" {
		k.By = userOf(&uri)
	}
	if k.Exchange == "" {
		k.Exchange = defaultExchange
	}
	if k.Concurrency < 1 {
		k.Concurrency = 1
	}
	if k.Prefetch < 1 {
		k.Prefetch = defaultPrefetch
	}
	if k.Memory < 1 {
		k.Memory = defaultMemory
	}
	if k.Drain <= 0 {
		k.Drain = defaultDrain
	}
	if k.Failed == nil {
		k.Failed = func(error) {}
	}
	return k, nil
}

// userOf returns the user of the URL, "" if the user may come from a client certificate. It goes into the header x-by
// and not into the property user_id: where RabbitMQ takes the user from a token (OAuth 2), it knows the user by another
// name, and would close the channel at each answer.
func userOf(uri *amqp.URI) string {
	if slices.ContainsFunc(uri.AuthMechanism, func(name string) bool { return strings.EqualFold(name, "EXTERNAL") }) {
		return ""
	}
	return uri.Username
}

// Consume receives the application's rings until ctx ends. It connects again after each lost connection. When ctx ends,
// it handles the rings that were read, for at most Drain, and returns nil; the broker gives the other messages to other
// consumers. It returns an error at once for a Consumer that cannot work.
func Consume(ctx context.Context, application string, k Consumer) error {
	k, err := k.withDefaults(application)
	if err != nil {
		return err
	}
	c := &consuming{Consumer: k, application: application, memory: once.NewMemory[client.Answer](k.Memory)}
	c.run(ctx)
	return nil
}

// consuming is one call of Consume.
type consuming struct {
	Consumer

	application string
	memory      *once.Memory[client.Answer]
}

// run consumes until ctx ends.
func (c *consuming) run(ctx context.Context) {
	for failures := 0; ctx.Err() == nil; failures++ {
		began := time.Now()
		fault := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		c.Failed(fmt.Errorf("consume the rings of %s: %w", c.application, fault))
		if time.Since(began) > longestPause {
			failures = 0
		}
		wait := min(firstPause<<min(failures, 10), longestPause)
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2+1)):
		}
	}
}

// session consumes over one connection. The error says why it ended.
func (c *consuming) session(ctx context.Context) error {
	conn, err := amqp.DialConfig(c.URL,
		amqp.Config{Heartbeat: 10 * time.Second, Properties: amqp.Table{"connection_name": "clockd client"}})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, deliveries, err := c.open(conn)
	if err != nil {
		return err
	}
	lost := ch.NotifyClose(make(chan *amqp.Error, 1))
	publisher := newPublisher(ch, c.Prefetch)
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var workers sync.WaitGroup
	for range c.Concurrency {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for d := range deliveries {
				if work.Err() == nil { // else the broker gives the message to another consumer
					c.take(work, publisher, &d)
				}
			}
		}()
	}
	ended := make(chan struct{})
	go func() {
		workers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		_ = ch.Cancel(consumerTag, false) // ends deliveries after the messages that were read
		select {
		case <-ended:
		case <-time.After(c.Drain):
			stop()
			_ = conn.Close()
			<-ended
		}
	}
	select {
	case err := <-lost:
		if err != nil {
			return err
		}
	default:
	}
	return errors.New("the broker ended the deliveries")
}

// consumerTag names the consumer on its channel.
const consumerTag = "clockd"

// open opens a channel whose answers are confirmed, and consumes the queue.
func (c *consuming) open(conn *amqp.Connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, nil, err
	}
	if err := ch.Confirm(false); err != nil {
		return nil, nil, err
	}
	if err := ch.Qos(c.Prefetch, 0, false); err != nil {
		return nil, nil, err
	}
	queue := c.Queue
	if queue == "" {
		queue = c.Exchange + "." + c.application
		if err := c.bind(ch, queue); err != nil {
			return nil, nil, err
		}
	}
	deliveries, err := ch.Consume(queue, consumerTag, false, false, false, false, nil)
	return ch, deliveries, err
}

// bind declares the exchange and the queue as the service would, and binds the queue.
func (c *consuming) bind(ch *amqp.Channel, queue string) error {
	if err := ch.ExchangeDeclare(c.Exchange, amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
		return err
	}
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		return err
	}
	return ch.QueueBind(queue, c.application, c.Exchange, false, nil)
}

// take handles one message. It acknowledges the message when nothing is left to be done for it.
func (c *consuming) take(ctx context.Context, p *publisher, d *amqp.Delivery) {
	r, err := ringOf(d, c.application)
	if err != nil {
		c.Failed(fmt.Errorf("a message of %s is no ring: %w", c.application, err))
		_ = d.Nack(false, false) // fails only on a lost connection
		return
	}
	state, answer := c.memory.Begin(r.MessageID)
	switch state {
	case once.New:
		answer = c.Handle(ctx, r)
		c.memory.End(r.MessageID, answer)
		if ctx.Err() != nil { // Handle was given up: the message comes again, to another consumer
			return
		}
	case once.Busy: // the message of the ring that is being handled comes again if this program ends
		_ = d.Ack(false)
		return
	case once.Done: // the answer may not have reached the service
	}
	if r.NeedsAnswer && answer.Kind != "" {
		if answer.By == "" {
			answer.By = c.By
		}
		if err := p.answer(ctx, d.ReplyTo, r.MessageID, answer); err != nil {
			c.Failed(fmt.Errorf("answer to ring %s of %s/%s: %w", r.MessageID, r.Application, r.BusinessID, err))
			p.pause(ctx)
			_ = d.Nack(false, true) // comes again, and repeats the answer
			return
		}
	}
	_ = d.Ack(false)
}
