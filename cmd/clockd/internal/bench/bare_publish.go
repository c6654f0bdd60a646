package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// gatherer is a connection that collects writes between begin and end: the library makes a system call of every message.
type gatherer struct {
	net.Conn
	mu     sync.Mutex
	buffer []byte
	on     bool
}

// gatherBytes is what is collected before it is written.
const gatherBytes = 128 << 10

// Write collects, or writes through.
func (g *gatherer) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.on {
		return g.Conn.Write(p)
	}
	g.buffer = append(g.buffer, p...)
	if len(g.buffer) < gatherBytes {
		return len(p), nil
	}
	return len(p), g.flush()
}

func (g *gatherer) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = true
}

func (g *gatherer) end() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.on = false
	return g.flush()
}

func (g *gatherer) flush() error {
	_, err := g.Conn.Write(g.buffer)
	g.buffer = g.buffer[:0]
	return err
}

// barePublisher publishes batches, persistent, mandatory and confirmed, on a connection of its own. One goroutine.
type barePublisher struct {
	exchange, key string
	headers       bool // all that a ring of clockd says; else body and message id alone
	wire          *gatherer
	conn          *amqp.Connection
	ch            *amqp.Channel
	returns       chan amqp.Return
	table         amqp.Table
	confirms      []*amqp.DeferredConfirmation
}

func newBarePublisher(ctx context.Context, b *broker, key string, headers bool) (*barePublisher, error) {
	p := &barePublisher{exchange: b.exchange, key: key, headers: headers, table: amqp.Table{"x-application": application}}
	var err error
	p.conn, err = amqp.DialConfig(b.url, amqp.Config{
		Properties: amqp.Table{"connection_name": "clockd bench ceiling"},
		Dial: func(network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
			p.wire = &gatherer{Conn: conn, buffer: make([]byte, 0, gatherBytes+4096)}
			return p.wire, err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("connect a publisher: %w", err)
	}
	if p.ch, err = p.conn.Channel(); err == nil {
		err = p.ch.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a channel: %w", err), p.conn.Close())
	}
	p.returns = p.ch.NotifyReturn(make(chan amqp.Return, ringRows))
	return p, nil
}

func (p *barePublisher) close() { _ = p.conn.Close() }

var errUnconfirmed = errors.New("the broker did not take a message")

// publish returns when every ring is confirmed.
func (p *barePublisher) publish(rings []bareRing) error {
	p.confirms = p.confirms[:0]
	p.wire.begin()
	for i := range rings {
		c, err := p.ch.PublishWithDeferredConfirm(p.exchange, p.key, true, false, p.message(&rings[i]))
		if err != nil {
			return errors.Join(err, p.wire.end())
		}
		p.confirms = append(p.confirms, c)
	}
	if err := p.wire.end(); err != nil {
		return err
	}
	for _, c := range p.confirms {
		if !c.Wait() {
			return errUnconfirmed
		}
	}
	select {
	case r := <-p.returns:
		return fmt.Errorf("%w: %d %s", errUnconfirmed, r.ReplyCode, r.ReplyText)
	default:
		return nil
	}
}

// message returns a ring as clockd's contract has it, or the least that can be checked. It is good until the next one.
func (p *barePublisher) message(r *bareRing) amqp.Publishing {
	m := amqp.Publishing{
		DeliveryMode: amqp.Persistent, Body: r.payload, CorrelationId: r.businessID,
		MessageId: strconv.FormatInt(r.id, 10) + "." + strconv.FormatInt(r.generation, 10) + "." + strconv.Itoa(int(r.ringNo)),
	}
	if !p.headers {
		return m
	}
	m.ContentType, m.Type, m.AppId, m.Timestamp = contentType, "alarm.ring", "clockd", time.UnixMilli(r.ringAt)
	t := p.table
	t["x-business-id"], t["x-target-ring-at"], t["x-rung-at"] = r.businessID, r.ringAt, r.rungAt
	t["x-generation"], t["x-ring-no"], t["x-retry-times"], t["x-claim-id"] = r.generation, r.ringNo, r.retryTimes, r.claimID
	m.Headers = t
	return m
}
