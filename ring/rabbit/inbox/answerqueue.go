package inbox

import (
	"fmt"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// declareAnswers declares the queue of answers. It accepts an existing queue with other arguments, and returns a
// warning. unlimited reports whether the broker accepted clockd's arguments: such a queue has no delivery limit, unless
// a policy sets one. AMQP does not show the arguments of any other queue, so it may have a limit, on every version of
// the broker.
func declareAnswers(l *wire.Link, queue string) (unlimited bool, warnings []string, err error) {
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
