package rabbit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// exchanges remembers the other exchanges that the broker has refused: they do not exist, are internal, or the user may
// not write to them. The broker closes a channel on which a ring goes to such an exchange, and leaves the other rings
// on the channel in doubt. So no ring goes there until a probe has passed. Then the next ring finds out.
type exchanges struct {
	mu      sync.Mutex
	refusal map[string]refusal // by exchange
}

// refusal is why and when the broker has refused an exchange.
type refusal struct {
	reason string
	at     time.Time
}

// refused remembers the reason why the broker has refused an exchange.
func (e *exchanges) refused(exchange, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.refusal == nil {
		e.refusal = map[string]refusal{}
	}
	e.refusal[exchange] = refusal{reason: reason, at: time.Now()}
}

// refusedSince returns why the broker has refused the exchange since the last probe that passed. It returns "" if it
// has not.
func (e *exchanges) refusedSince(exchange string, passed func(since time.Time) bool) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	r, found := e.refusal[exchange]
	if found && passed(r.at) {
		delete(e.refusal, exchange)
		return ""
	}
	return r.reason
}

// address says where a ring goes, and with which properties.
type address struct {
	exchange, routingKey string
	headers              map[string]string // beside the ring's
	expiration           time.Duration     // 0: none
}

// addressOf returns where a ring goes, or the outcome of a ring that the settings send nowhere.
func (s *Session) addressOf(r *clock.Ring) (to address, none clock.Outcome) {
	if r.Message != nil {
		return address{exchange: r.Message.Exchange, routingKey: r.Message.RoutingKey}, none
	}
	var d *Destination
	if r.Own == (clock.OwnReceiver{}) {
		if d = s.destinations(r.Receiver()); d == nil && r.Destination != 0 {
			return to, clock.NoReceiver(r, "exchange")
		}
	} else {
		var err error
		if d, err = s.own(r); err != nil {
			return to, clock.Withdrawn(r, err.Error())
		}
	}
	to.exchange, to.routingKey = d.of(r.Application, s.cfg.Exchange)
	if d != nil {
		to.headers, to.expiration = d.Headers, d.Expiration
	}
	return to, none
}

// allows reports whether rings of applications may go to the exchange.
func (s *Session) allows(exchange string) bool {
	return exchange == s.cfg.Exchange || slices.Contains(s.cfg.Exchanges, exchange)
}

// otherExchange returns the exchange of a ring that does not go to the session's own exchange, else "".
func (d *delivery) otherExchange(i int) string {
	if d.states[i].to.exchange == d.s.cfg.Exchange {
		return ""
	}
	return d.states[i].to.exchange
}

// address notes where each ring goes. The settings may change during a delivery.
func (d *delivery) address() {
	for i := range d.rings {
		t := &d.states[i]
		t.to, t.outcome = d.s.addressOf(&d.rings[i])
		if t.outcome.Kind == 0 && d.rings[i].Message == nil && !d.s.allows(t.to.exchange) {
			t.outcome = clock.Outcome{Kind: clock.Untaken,
				Reason: fmt.Sprintf("exchange %q is not allowed (CLOCKD_AMQP_EXCHANGES)", t.to.exchange)}
		}
	}
}

// findOthers finds out which other exchanges of the rings exist and take messages, over the lane's connection. Rings to
// the others are returned. An exchange is looked for once in a connection, until writeCtx ends.
func (l *lane) findOthers(writeCtx context.Context) {
	for i := range l.current.rings {
		exchange := l.current.otherExchange(i)
		if exchange == "" || l.current.states[i].outcome.Kind != 0 {
			continue
		}
		reason := l.s.exchanges.refusedSince(exchange, l.s.health.passedSince)
		if reason == "" && !l.found[exchange] {
			reason = l.find(writeCtx, exchange)
		}
		if reason != "" {
			l.found[exchange] = false
			l.current.states[i].outcome = clock.Outcome{Kind: clock.Returned, Reason: reason}
		}
	}
}

// find returns why the broker does not have the exchange or refuses messages to it, or "". An error of the connection
// shows when the rings are published.
func (l *lane) find(writeCtx context.Context, exchange string) (reason string) {
	if writeCtx.Err() != nil || l.link.IsClosed() {
		return ""
	}
	err := l.link.OnChannel(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(exchange, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	if err == nil {
		err = l.tryOut(exchange)
	}
	switch wire.ReplyCode(err) {
	case amqp.NotFound, amqp.AccessRefused:
		reason = fmt.Sprintf("the exchange of the ring cannot be used: %s", wire.Describe(err))
		l.s.exchanges.refused(exchange, reason)
		l.s.requestProbe()
	}
	l.found[exchange] = err == nil
	return reason
}

// tryOut finds out whether the broker takes messages to the exchange. A refused ring would leave the other rings of its
// channel in doubt. So tryOut publishes a message that the broker refuses in any case, because its expiration is no
// number. RabbitMQ first checks the exchange and the right to write to it. tryOut does not find out about the right to
// single routing keys of a topic exchange.
func (l *lane) tryOut(exchange string) error {
	err := l.link.OnChannel(func(ch *amqp.Channel) error {
		closed := ch.NotifyClose(make(chan *amqp.Error, 1))
		if err := ch.Publish(exchange, "", false, false, amqp.Publishing{Expiration: "none"}); err != nil {
			return err
		}
		err := ch.Qos(0, 0, false) // its reply comes after the broker has read the message
		if err == nil {
			return nil
		}
		if fault := <-closed; fault != nil {
			return fault
		}
		return err
	})
	if wire.ReplyCode(err) == amqp.PreconditionFailed || strings.Contains(fmt.Sprint(err), "access to topic") {
		return nil
	}
	return err
}
