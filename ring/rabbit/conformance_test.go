package rabbit

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/targettest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	targettest.Run(t,
		targettest.Engine{Open: openConformance, Refused: clock.Nacked, Absent: clock.Returned, LateTogether: true,
			Destinations: true})
}

// conformanceBench is a session that reaches the broker through a proxy, with the queues of applications.
type conformanceBench struct {
	*rabbittest.Broker
	p        *rabbittest.Proxy
	s        *Session
	queues   map[string]string // by application
	received map[string][]targettest.Received
}

func openConformance(t *testing.T) targettest.Bench {
	t.Helper()
	b, p, cfg := proxied(t)
	s := runWith(t, cfg, Deps{Own: func(r *clock.Ring) (*Destination, error) {
		if r.Own.Fields == targettest.Withdrawn {
			return nil, targettest.ErrWithdrawn
		}
		return &Destination{RoutingKey: r.Own.Fields}, nil
	}})
	waitUsable(t, s, 10*time.Second)
	c := &conformanceBench{Broker: b, p: p, s: s, queues: map[string]string{},
		received: map[string][]targettest.Received{}}
	t.Cleanup(c.Reply)
	return c
}

func (c *conformanceBench) Target() ring.Target { return c.s }

// Receive binds a queue. Late stalls the proxy.
func (c *conformanceBench) Receive(application string, how targettest.Behaviour) {
	c.TB.Helper()
	args := rabbittest.Quorum
	if how == targettest.Refusing {
		args = amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"}
	}
	c.queues[application] = c.Queue(application, args)
	if how == targettest.Late {
		c.p.Stall(true)
	}
}

// Reply ends the stall.
func (c *conformanceBench) Reply() { c.p.Stall(false) }

// Received takes the messages out of the application's queue.
func (c *conformanceBench) Received(application string) []targettest.Received {
	c.TB.Helper()
	for {
		d, found, err := c.Ch.Get(c.queues[application], true)
		c.Must(err)
		if !found {
			return c.received[application]
		}
		c.received[application] = append(c.received[application], targettest.Received{
			MessageID: d.MessageId, BusinessID: d.CorrelationId, ContentType: d.ContentType, Payload: string(d.Body),
		})
	}
}
