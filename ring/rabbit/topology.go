package rabbit

import (
	"fmt"
	"strconv"
	"strings"

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

// declareAnswers declares the queue of answers. It accepts an existing queue with other arguments, and returns a
// warning. unlimited reports whether the broker accepted clockd's arguments: such a queue has no delivery limit, unless
// a policy sets one. AMQP does not show the arguments of any other queue, so it may have a limit, on every version of
// the broker.
func (s *Session) declareAnswers(l *wire.Link, queue string) (unlimited bool, warnings []string, err error) {
	args := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	if major(l.ServerVersion()) >= 4 {
		args["x-delivery-limit"] = int32(-1) // the default of 20 would lose answers while the database is not available
	}
	refused := l.OnChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, args)
		return err
	})
	switch wire.ReplyCode(refused) {
	case amqp.PreconditionFailed:
		warnings = []string{fmt.Sprintf("queue %q exists with other arguments than clockd's (durable, quorum): clockd uses it unchanged, and it "+
			"keeps answers only as safely as its arguments say. It may have a delivery limit (20 by default on RabbitMQ 4), so answers that "+
			"wait for the database return to it as copies: %s", queue, wire.Describe(refused))}
	case amqp.AccessRefused:
		// a user with the right to read only can still take answers, if another user has declared the queue
	default:
		if refused != nil {
			return false, nil, fmt.Errorf("declare queue %q: %w", queue, wire.Describe(refused))
		}
		return true, nil, nil
	}
	err = l.OnChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if err != nil {
		return false, nil, fmt.Errorf("queue %q can neither be declared (%w) nor used: %w", queue, wire.Describe(refused),
			wire.Describe(err))
	}
	return false, warnings, nil
}

// major returns the broker's major version, 0 if it is unknown.
func major(version string) int {
	number, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n
}
