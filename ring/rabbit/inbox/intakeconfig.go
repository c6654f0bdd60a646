package inbox

import (
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// IntakeConfig says which queue the intake of delayed messages consumes, and where the messages go.
type IntakeConfig struct {
	// Queue is the name of the queue that is consumed. It must exist, and must not be a stream. "": there is no intake.
	Queue string
	// Exchange gets each message at its time, with the message's own routing key. It must exist when the message is
	// due.
	Exchange string
	// DeadLetters is the exchange for messages that cannot be alarms, each with its own routing key. It must exist.
	DeadLetters string
	// Application of the alarms of messages without the header x-application. Default intake.
	Application string
	// MaxBody is the largest body that can be an alarm, in bytes. It is the largest payload. Default
	// clock.DefaultMaxPayload.
	MaxBody int
}

// DefaultIntakeConfig returns the defaults, without names.
func DefaultIntakeConfig() IntakeConfig {
	return IntakeConfig{Application: "intake", MaxBody: clock.DefaultMaxPayload}
}

// The intake has as many messages in flight as fit into intakeMemory, but at most maxIntakePrefetch.
const (
	intakeMemory      = 64 << 20
	maxIntakePrefetch = 2000
)

// prefetch returns the largest number of messages in flight.
func (c *IntakeConfig) prefetch() int {
	return min(max(intakeMemory/(c.MaxBody+wire.MaxHeader), 1), maxIntakePrefetch)
}

// Validate returns every rule that the configuration breaks.
func (c *IntakeConfig) Validate() (broken []error) {
	rule := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Errorf("rabbit: intake: "+format, args...))
		}
	}
	if c.Queue == "" {
		rule(c.Exchange == "" && c.DeadLetters == "", "an exchange is given, and no queue to consume")
		return broken
	}
	rule(len(c.Queue) <= wire.MaxShortString, "the queue's name has %d bytes, AMQP allows %d", len(c.Queue), wire.MaxShortString)
	rule(c.Exchange != "", "the exchange that gets the messages at their time needs a name")
	rule(c.DeadLetters != "",
		"the exchange for dead letters needs a name: a message that cannot be an alarm goes there, so that it is not lost")
	for _, exchange := range []string{c.Exchange, c.DeadLetters} {
		rule(len(exchange) <= wire.MaxShortString, "an exchange's name has %d bytes, AMQP allows %d", len(exchange),
			wire.MaxShortString)
	}
	rule(clock.ValidateApplication(c.Application) == nil, "%q is no application's name", c.Application)
	rule(c.MaxBody >= 0 && c.MaxBody <= clock.MaxStoredPayload, "the largest body must be from 0 to %d bytes",
		clock.MaxStoredPayload)
	return broken
}
