package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// bufferedConn is a connection that collects writes between begin and end. Without it the library makes a system call
// for every message.
type bufferedConn struct {
	net.Conn
	mu         sync.Mutex
	buffer     []byte
	collecting bool
}

// bufferBytes is the number of bytes after which the buffer is written.
const bufferBytes = 128 << 10

// Write collects p between begin and end. Otherwise it writes p at once.
func (g *bufferedConn) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.collecting {
		return g.Conn.Write(p)
	}
	g.buffer = append(g.buffer, p...)
	if len(g.buffer) < bufferBytes {
		return len(p), nil
	}
	return len(p), g.flush()
}

func (g *bufferedConn) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.collecting = true
}

func (g *bufferedConn) end() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.collecting = false
	return g.flush()
}

func (g *bufferedConn) flush() error {
	_, err := g.Conn.Write(g.buffer)
	g.buffer = g.buffer[:0]
	return err
}

// barePublisher publishes batches on a connection of its own: persistent, mandatory and confirmed. One goroutine uses
// it.
type barePublisher struct {
	exchange, key string
	headers       bool // messages have all properties of a clockd ring; else only body, message id and correlation id
	buffered      *bufferedConn
	conn          *amqp.Connection
	ch            *amqp.Channel
	returns       chan amqp.Return
	table         amqp.Table
	confirms      []*amqp.DeferredConfirmation
}

func newBarePublisher(ctx context.Context, b *broker, key string, headers bool) (*barePublisher, error) {
	p := &barePublisher{exchange: b.exchange, key: key, headers: headers,
		table: amqp.Table{"x-application": application}}
	var err error
	p.conn, err = amqp.DialConfig(b.url, amqp.Config{
		Properties: amqp.Table{"connection_name": "clockbench ceiling"},
		Dial: func(network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, addr)
			p.buffered = &bufferedConn{Conn: conn, buffer: make([]byte, 0, bufferBytes+4096)}
			return p.buffered, err
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

var errUnconfirmed = errors.New("the broker did not confirm a message")

// publish publishes the rings, and returns when every ring is confirmed.
func (p *barePublisher) publish(rings []bareRing) error {
	p.confirms = p.confirms[:0]
	p.buffered.begin()
	for i := range rings {
		c, err := p.ch.PublishWithDeferredConfirm(p.exchange, p.key, true, false, p.message(&rings[i]))
		if err != nil {
			return errors.Join(err, p.buffered.end())
		}
		p.confirms = append(p.confirms, c)
	}
	if err := p.buffered.end(); err != nil {
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

// message returns the message of a ring: as in clockd's contract, or the smallest message that the tally can check. It
// is valid until the next call.
func (p *barePublisher) message(r *bareRing) amqp.Publishing {
	m := amqp.Publishing{
		DeliveryMode: amqp.Persistent, Body: r.payload, CorrelationId: r.businessID,
		MessageId: r.messageID(),
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
