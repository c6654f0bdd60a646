package rabbit

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// declare declares the exchange and the queues of DeclareQueues. A queue that cannot be declared causes a warning, not
// an error: an application may have declared it with other arguments.
func (s *Session) declare(l *wire.Link) (warnings []string, err error) {
	if err := s.declareExchange(l, s.cfg.Exchange); err != nil {
		return nil, err
	}
	for _, application := range s.cfg.DeclareQueues {
		if err := s.declareQueue(l, application); err != nil {
			warnings = append(warnings, err.Error())
		}
	}
	return warnings, nil
}

func (s *Session) declareExchange(l *wire.Link, name string) error {
	err := l.OnChannel(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	switch wire.ReplyCode(err) {
	case amqp.PreconditionFailed:
		return fmt.Errorf("exchange %q exists, but not as a durable direct exchange without auto-delete and arguments: "+
			"delete it, or choose another name (CLOCKD_AMQP_EXCHANGE): %w", name, wire.Describe(err))
	case amqp.AccessRefused:
		// a user with the right to write only can still ring, if another user has declared the exchange
		return s.findExchange(l, name, err)
	}
	if err != nil {
		return fmt.Errorf("declare exchange %q: %w", name, wire.Describe(err))
	}
	return nil
}

func (s *Session) findExchange(l *wire.Link, name string, refused error) error {
	err := l.OnChannel(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	if err != nil {
		return fmt.Errorf("exchange %q is missing, and the user may not declare it: %w", name, wire.Describe(refused))
	}
	return nil
}

func (s *Session) declareQueue(l *wire.Link, application string) error {
	queue := s.cfg.Exchange + "." + application
	err := l.OnChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
		return err
	})
	if err != nil {
		return fmt.Errorf("queue %q could not be declared: %w", queue, wire.Describe(err))
	}
	err = l.OnChannel(func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, application, s.cfg.Exchange, false, nil)
	})
	if err != nil {
		return fmt.Errorf("queue %q could not be bound to exchange %q: %w", queue, s.cfg.Exchange, wire.Describe(err))
	}
	return nil
}
