package rabbit

import (
	"cmp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Destination says to which exchange the rings of one application go, and with which routing key. It does not change.
type Destination struct {
	Exchange   string // "": the exchange of the session. Any other one must be in Config.Exchanges
	RoutingKey string // "": the application's name
}

// of returns the exchange and the routing key of the application's rings. byDefault is the exchange of the session. d
// may be nil.
func (d *Destination) of(application, byDefault string) (exchange, routingKey string) {
	if d == nil {
		return byDefault, application
	}
	return cmp.Or(d.Exchange, byDefault), cmp.Or(d.RoutingKey, application)
}

// Part is the destination in the settings of an application.
var Part = &settings.Part[Destination]{
	Name: "amqp", Type: "AMQP", Target: clock.TargetAMQP,
	Help: "Where in RabbitMQ the rings of an application go whose target is amqp. " +
		"The nodes must allow the exchange (CLOCKD_AMQP_EXCHANGES).",
	Absent: "the exchange of the process, with the application as routing key",
	New:    func() *Destination { return &Destination{} },
	Fields: []settings.Field[Destination]{
		settings.Text(settings.FieldInfo{
			Name: "exchange", Max: wire.MaxShortString, Example: "orders",
			Help: "Without it: the exchange of the process (CLOCKD_AMQP_EXCHANGE).",
		}, func(d *Destination) *string { return &d.Exchange }, nameFault),
		settings.Text(settings.FieldInfo{
			Name: "routing_key", Max: wire.MaxShortString, Example: "due", Help: "Without it: the application.",
		}, func(d *Destination) *string { return &d.RoutingKey }, nameFault),
	},
	Check: func(d *Destination) error {
		if *d == (Destination{}) {
			return clock.Invalid(clock.CodeRequired, "exchange", "give exchange, routing_key or both")
		}
		return nil
	},
}

// nameFault returns the fault of the name of an exchange, or of a routing key.
func nameFault(name string) *settings.Fault {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return settings.Wrong("must be UTF-8 without control characters")
	}
	return nil
}
