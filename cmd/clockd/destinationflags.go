package main

import (
	"cmp"

	"github.com/clockd/clockd/clock/settings"
)

// destinationFlags change the destination of an application's rings in RabbitMQ.
type destinationFlags struct {
	AMQP map[string]string `name:"amqp" mapsep:"," placeholder:"exchange=orders,routing_key=due" help:"Exchange of RabbitMQ and routing key; parts that are left out stay. The nodes must allow the exchange (CLOCKD_AMQP_EXCHANGES)."`
}

// named reports whether the flag is given.
func (f *destinationFlags) named() bool { return len(f.AMQP) > 0 }

// applyDestination changes the destination of a document, nil if it has none.
func (f *destinationFlags) applyDestination(destination map[string]any) map[string]any {
	if destination == nil {
		destination = map[string]any{}
	}
	for name, value := range f.AMQP {
		destination[name] = value
	}
	return destination
}

// describeDestination returns a destination on one line for people.
func describeDestination(a *settings.AMQP) string {
	exchange, key := a.Destination("", "")
	return "exchange " + cmp.Or(exchange, "of the process") + ", routing key " + cmp.Or(key, "the application")
}
