package rabbit

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// declare makes sure of the exchange, and of the queues that were asked for. A queue that cannot be declared is a warning,
// not an error: it may be the application's own, with other arguments.
func (s *Session) declare(l *link) (warnings []string, err error) {
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

func (s *Session) declareExchange(l *link, name string) error {
	err := onChannel(l, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(name, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	switch replyCode(err) {
	case amqp.PreconditionFailed:
		return fmt.Errorf("exchange %q exists, but not as a durable direct exchange without auto-delete and arguments: "+
			"delete it, or choose another name (CLOCKD_AMQP_EXCHANGE): %w", name, describe(err))
	case amqp.AccessRefused:
		// a user that may only write can still ring, where someone else has declared the exchange
		return s.findExchange(l, name, err)
	}
	if err != nil {
		return fmt.Errorf("declare exchange %q: %w", name, describe(err))
	}
	return nil
}

func (s *Session) findExchange(l *link, name string, refused error) error {
	err := onChannel(l, func(ch *amqp.Channel) error {
		return ch.ExchangeDeclarePassive(name, amqp.ExchangeDirect, true, false, false, false, nil)
	})
	if err != nil {
		return fmt.Errorf("exchange %q is missing, and the user may not declare it: %w", name, describe(refused))
	}
	return nil
}

func (s *Session) declareQueue(l *link, application string) error {
	queue := s.cfg.Exchange + "." + application
	err := onChannel(l, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum})
		return err
	})
	if err != nil {
		return fmt.Errorf("queue %q could not be declared: %w", queue, describe(err))
	}
	err = onChannel(l, func(ch *amqp.Channel) error {
		return ch.QueueBind(queue, application, s.cfg.Exchange, false, nil)
	})
	if err != nil {
		return fmt.Errorf("queue %q could not be bound to exchange %q: %w", queue, s.cfg.Exchange, describe(err))
	}
	return nil
}

// onChannel runs do on a channel of its own: a refusal closes it.
func onChannel(l *link, do func(*amqp.Channel) error) error {
	ch, err := l.conn.Channel()
	if err != nil {
		return err
	}
	if err := do(ch); err != nil {
		return err
	}
	return ch.Close()
}
