package rabbit

import (
	"fmt"
	"strconv"
	"strings"

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

// declareAnswers makes sure of the queue of answers. One that is there already is used as it is, with a warning.
func (s *Session) declareAnswers(l *link, queue string) (warnings []string, err error) {
	args := amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeQuorum}
	if major(l.conn.Properties) >= 4 {
		args["x-delivery-limit"] = int32(-1) // its default of 20 would lose answers while the database is away
	}
	refused := onChannel(l, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, args)
		return err
	})
	switch replyCode(refused) {
	case amqp.PreconditionFailed:
		warnings = []string{fmt.Sprintf("queue %q exists with other arguments than clockd's (durable, quorum): it is used as it is, and keeps "+
			"answers only as safely as it was set up to: %s", queue, describe(refused))}
	case amqp.AccessRefused:
		// a user that may only read can still take answers, where someone else has declared the queue
	default:
		if refused != nil {
			return nil, fmt.Errorf("declare queue %q: %w", queue, describe(refused))
		}
		return nil, nil
	}
	err = onChannel(l, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("queue %q can neither be declared (%w) nor used: %w", queue, describe(refused), describe(err))
	}
	return warnings, nil
}

// major returns the broker's major version, 0 if it does not say.
func major(properties amqp.Table) int {
	version, _ := properties["version"].(string)
	number, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n
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
