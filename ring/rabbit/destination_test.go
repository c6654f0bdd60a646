package rabbit

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

func TestDestinationReadsBackAsWritten(t *testing.T) {
	form := settings.NewForm(Part)
	for document, want := range map[string]Destination{
		`{"amqp":{"exchange":"orders"}}`:                     {Exchange: "orders"},
		`{"amqp":{"routing_key":"due.\"x\" <ä>"}}`:           {RoutingKey: `due."x" <ä>`},
		`{"amqp":{"exchange":"orders","routing_key":"due"}}`: {Exchange: "orders", RoutingKey: "due"},
		`{"target":"amqp","amqp":{"exchange":"o","x":null}}`: {},
		`{"amqp":{}}`:                      {},
		`{"amqp":{"exchange":1}}`:          {},
		`{"amqp":{"exchange":"a\u0000b"}}`: {},
		`{"amqp":{"exchange":"` + strings.Repeat("e", 256) + `"}}`: {},
	} {
		s, err := form.Parse(document)
		if reflect.DeepEqual(want, Destination{}) {
			if e, is := errors.AsType[*clock.Error](err); !is || !strings.HasPrefix(e.Field, "amqp") && e.Field != "x" {
				t.Errorf("%.60s: error %v", document, err)
			}
			continue
		}
		if err != nil || Part.Of(&s) == nil || !reflect.DeepEqual(*Part.Of(&s), want) {
			t.Errorf("%s is %+v, %v", document, Part.Of(&s), err)
			continue
		}
		if again, err := form.Parse(form.Encode(&s)); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%s reads back as %+v, %v", form.Encode(&s), again, err)
		}
	}
}

func TestDestinationHasDefaults(t *testing.T) {
	for _, c := range []struct {
		a             *Destination
		exchange, key string
	}{{nil, "clock", "shop"}, {&Destination{Exchange: "o"}, "o", "shop"}, {&Destination{RoutingKey: "k"}, "clock", "k"}, {&Destination{Exchange: "o", RoutingKey: "k"}, "o", "k"}} {
		if exchange, key := c.a.of("shop", "clock"); exchange != c.exchange || key != c.key {
			t.Errorf("%+v: %s %s", c.a, exchange, key)
		}
	}
}
