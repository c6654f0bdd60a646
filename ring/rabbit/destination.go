package rabbit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/ring/rabbit/inbox"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Destination says to which exchange the rings of one application go, and with which routing key. It does not change.
type Destination struct {
	Exchange   string            // "": the exchange of the session. Any other one must be in Config.Exchanges
	RoutingKey string            // "": the application's name
	Headers    map[string]string // further headers of each message; nil: none
	Expiration time.Duration     // time after which the broker drops a message; 0: none

	AlarmFields settings.Patterns // fields that alarms may bring themselves; nil: none
}

// of returns the exchange and the routing key of the application's rings. byDefault is the exchange of the session. d
// may be nil.
func (d *Destination) of(application, byDefault string) (exchange, routingKey string) {
	if d == nil {
		return byDefault, application
	}
	return cmp.Or(d.Exchange, byDefault), cmp.Or(d.RoutingKey, application)
}

// The fields of a destination that alarms may bring themselves.
var (
	exchangeField = settings.Text(settings.FieldInfo{
		Name: "exchange", Max: wire.MaxShortString, Example: "orders",
		Help: "Without it: the exchange of the process (CLOCKD_AMQP_EXCHANGE).",
	}, func(d *Destination) *string { return &d.Exchange }, nameFault)
	routingKeyField = settings.Text(settings.FieldInfo{
		Name: "routing_key", Max: wire.MaxShortString, Example: "due", Help: "Without it: the application.",
	}, func(d *Destination) *string { return &d.RoutingKey }, nameFault)
	headersField = settings.Texts(settings.FieldInfo{
		Name: "headers", Flag: "header", Help: "Further headers of each message.",
	}, func(d *Destination) *map[string]string { return &d.Headers }, settings.AtMost(maxHeaders, maxHeaderBytes), headerFault)
	expirationField = settings.OptionalDuration(settings.FieldInfo{
		Name: "expiration", Example: "10m", Absent: "none",
		Help: "Time after which the broker drops a message that no consumer has taken.",
	}, func(d *Destination) *time.Duration { return &d.Expiration }, time.Millisecond, maxExpiration)
)

const (
	maxExpiration  = 30 * 24 * time.Hour // below the broker's bound
	maxHeaders     = 32
	maxHeaderBytes = 8 << 10 // of all names and values
)

// own are the fields of a destination that alarms may bring themselves.
var own = &settings.Own[Destination]{
	Fields: []settings.OwnField[Destination]{
		{Field: exchangeField}, {Field: routingKeyField}, {Field: headersField}, {Field: expirationField},
	},
	Patterns: func(d *Destination) settings.Patterns { return d.AlarmFields },
	With:     (*Destination).with,
	Place:    func(d *Destination) string { return d.Exchange + "\x00" + d.RoutingKey },
}

// with returns a copy of d with the fields of own that are not empty.
func (d *Destination) with(own *Destination) *Destination {
	merged := *d
	merged.Exchange, merged.RoutingKey = cmp.Or(own.Exchange, d.Exchange), cmp.Or(own.RoutingKey, d.RoutingKey)
	merged.Expiration = cmp.Or(own.Expiration, d.Expiration)
	merged.Headers = maps.Clone(d.Headers)
	if merged.Headers == nil {
		merged.Headers = own.Headers
	}
	maps.Copy(merged.Headers, own.Headers)
	return &merged
}

// Part is the destination in the settings of an application.
var Part = &settings.Part[Destination]{
	Name: "amqp", Type: "AMQP", Target: clock.TargetAMQP,
	Help: "Where in RabbitMQ the rings of an application go whose target is amqp. " +
		"The nodes must allow the exchange (CLOCKD_AMQP_EXCHANGES).",
	Absent:   "the exchange of the process, with the application as routing key",
	New:      func() *Destination { return &Destination{} },
	Own:      own,
	Receiver: own.Place,
	Fields: []settings.Field[Destination]{
		exchangeField, routingKeyField, headersField, expirationField,
		settings.AlarmFields(own.Fields, func(d *Destination) *settings.Patterns { return &d.AlarmFields }),
	},
	Check: func(d *Destination) error {
		if cmp.Or(d.Exchange, d.RoutingKey) == "" && len(d.Headers) == 0 && d.Expiration == 0 && len(d.AlarmFields) == 0 {
			return clock.Invalid(clock.CodeRequired, "exchange", "give exchange, routing_key or another field")
		}
		return nil
	},
}

// headerFault returns the fault of one header. The broker reads CC and BCC as further routing keys.
func headerFault(headers map[string]string, name string) *settings.Fault {
	lower := strings.ToLower(name) // consumers may ignore the case
	switch {
	case name == "" || len(name) > wire.MaxShortString || nameFault(name) != nil:
		return settings.Wrong("is not the name of a header")
	case slices.Contains(ownHeaders, lower) || strings.HasPrefix(lower, inbox.OurHeaders):
		return settings.Wrong("is a header that clockd writes itself")
	case name == "CC" || name == "BCC":
		return settings.Wrong("is a header by which the broker would route the message")
	}
	return nameFault(headers[name])
}

// nameFault returns the fault of the name of an exchange, or of a routing key.
func nameFault(name string) *settings.Fault {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return settings.Wrong("must be UTF-8 without control characters")
	}
	return nil
}
