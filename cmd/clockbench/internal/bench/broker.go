package bench

import (
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// broker is an exchange of the bench, with a queue bound to it.
type broker struct {
	url      string
	conn     *amqp.Connection
	exchange string
	queue    string // queue of all applications
	delayed  string // queue of delayed messages; empty: there is none
	letters  string // exchange of the delayed messages that clockd cannot take, with a queue; empty: there is none
	kind     string // Quorum or Classic
	extra    []string
}

// newBroker returns a broker whose queue gets the rings of that many applications.
func newBroker(url, name, kind string, applications int) (*broker, error) {
	conn, err := amqp.DialConfig(url, amqp.Config{Properties: amqp.Table{"connection_name": "clockbench"}})
	if err != nil {
		return nil, fmt.Errorf("connect to the broker: %w", err)
	}
	b := &broker{url: url, conn: conn, exchange: name, queue: name + "." + application, kind: kind}
	if err := b.declare(applications); err != nil {
		return nil, errors.Join(err, b.Drop())
	}
	return b, nil
}

func (b *broker) declare(applications int) error {
	err := b.withChannel(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(b.exchange, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	if err != nil {
		return fmt.Errorf("declare exchange %s: %w", b.exchange, err)
	}
	for n := range applications {
		if err := b.declareQueue(b.queue, applicationOf(n)); err != nil {
			return err
		}
	}
	return nil
}

// declareQueue declares a queue of the measured kind, and binds it to the routing key.
func (b *broker) declareQueue(queue, key string) error {
	err := b.withChannel(func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: b.kind}); err != nil {
			return err
		}
		return ch.QueueBind(queue, key, b.exchange, false, nil)
	})
	if err != nil {
		return fmt.Errorf("declare queue %s: %w", queue, err)
	}
	return nil
}

// declareDelayed declares a queue of delayed messages. Publish to it by the default exchange: the messages then come to
// the queue of all applications at their time.
func (b *broker) declareDelayed() error {
	b.delayed, b.letters = b.exchange+".delayed", b.exchange+".letters"
	b.extra = append(b.extra, b.delayed, b.letters)
	err := b.withChannel(func(ch *amqp.Channel) error {
		err := ch.ExchangeDeclare(b.letters, amqp.ExchangeFanout, true, false, false, false, nil)
		for _, queue := range []string{b.delayed, b.letters} {
			if err == nil {
				_, err = ch.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: b.kind})
			}
		}
		if err == nil {
			err = ch.QueueBind(b.letters, "", b.letters, false, nil)
		}
		if err == nil {
			err = ch.QueueBind(b.queue, b.delayed, b.exchange, false, nil)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("declare queue %s: %w", b.delayed, err)
	}
	return nil
}

// ceilingQueue declares another queue for one ceiling. It returns the queue and its routing key.
func (b *broker) ceilingQueue() (queue, key string, err error) {
	key = fmt.Sprintf("ceiling%d", len(b.extra))
	queue = b.exchange + "." + key
	b.extra = append(b.extra, queue)
	return queue, key, b.declareQueue(queue, key)
}

// withChannel runs do on a channel of its own, because a refused operation closes its channel.
func (b *broker) withChannel(do func(*amqp.Channel) error) error {
	ch, err := b.conn.Channel()
	if err != nil {
		return err
	}
	if err := do(ch); err != nil {
		return err
	}
	return ch.Close()
}

// Engine returns the broker's name and version.
func (b *broker) Engine() string {
	return fmt.Sprintf("%v %v", b.conn.Properties["product"], b.conn.Properties["version"])
}

// Drop deletes the exchange and the queues, and closes the connection.
func (b *broker) Drop() error {
	var errs []error
	for _, queue := range append(b.extra, b.queue) {
		errs = append(errs, b.withChannel(func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(queue, false, false, false)
			return err
		}))
	}
	for _, exchange := range []string{b.exchange, b.letters} {
		if exchange != "" {
			errs = append(errs,
				b.withChannel(func(ch *amqp.Channel) error { return ch.ExchangeDelete(exchange, false, false) }))
		}
	}
	return errors.Join(append(errs, b.conn.Close())...)
}
