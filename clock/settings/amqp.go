package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

// maxAMQPName is the longest name of an exchange, and the longest routing key, in bytes.
const maxAMQPName = 255

// AMQP says to which exchange of RabbitMQ the rings of one application go, and with which routing key. It does not
// change.
type AMQP struct {
	Exchange   string // "": the exchange of the process. Any other one must be in its allow-list
	RoutingKey string // "": the application's name
}

// Validate returns a *clock.Error of kind clock.ErrInvalid that names the field, or nil.
func (a *AMQP) Validate() error {
	if a.Exchange == "" && a.RoutingKey == "" {
		return clock.Invalid(clock.CodeRequired, "exchange", "give exchange, routing_key or both")
	}
	for field, value := range map[string]string{"exchange": a.Exchange, "routing_key": a.RoutingKey} {
		if len(value) > maxAMQPName || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
			return clock.Invalid(clock.CodeInvalidValue, field,
				fmt.Sprintf("%s must be UTF-8 of at most %d bytes, without control characters", field, maxAMQPName))
		}
	}
	return nil
}

// Destination returns the exchange and the routing key of the application's rings. byDefault is the exchange of the
// process. a may be nil.
func (a *AMQP) Destination(application, byDefault string) (exchange, routingKey string) {
	if a == nil {
		return byDefault, application
	}
	return cmp.Or(a.Exchange, byDefault), cmp.Or(a.RoutingKey, application)
}

// amqpFields are the fields of the destination in a settings document.
var amqpFields = []string{"exchange", "routing_key"}

// parseAMQP reads the destination of a settings document. The field of an error begins with amqp.
func parseAMQP(raw []byte) (*AMQP, error) {
	a := &AMQP{}
	err := eachMember("", raw, amqpFields, func(name string, raw []byte) error {
		if name == "exchange" {
			return parseTextField(raw, name, &a.Exchange)
		}
		return parseTextField(raw, name, &a.RoutingKey)
	})
	if err == nil {
		err = a.Validate()
	}
	if err != nil {
		return nil, within("amqp", err)
	}
	return a, nil
}

// amqpFormat is the JSON of a destination in a settings document.
type amqpFormat struct {
	Exchange   string `json:"exchange,omitempty"`
	RoutingKey string `json:"routing_key,omitempty"`
}

// format returns the JSON of the destination.
func (a *AMQP) format() *amqpFormat {
	if a == nil {
		return nil
	}
	return &amqpFormat{Exchange: a.Exchange, RoutingKey: a.RoutingKey}
}

// JSON returns the destination as it is in a settings document; null for nil.
func (a *AMQP) JSON() []byte {
	b, err := json.Marshal(a.format())
	if err != nil { // two strings
		panic("settings: encode a destination: " + err.Error())
	}
	return b
}
