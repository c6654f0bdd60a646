package settings

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestDestinationReadsBackAsWritten(t *testing.T) {
	for document, want := range map[string]AMQP{
		`{"amqp":{"exchange":"orders"}}`:                     {Exchange: "orders"},
		`{"amqp":{"routing_key":"due.\"x\" <ä>"}}`:           {RoutingKey: `due."x" <ä>`},
		`{"amqp":{"exchange":"orders","routing_key":"due"}}`: {Exchange: "orders", RoutingKey: "due"},
		`{"target":"amqp","amqp":{"exchange":"o","x":null}}`: {},
		`{"amqp":{}}`:                      {},
		`{"amqp":{"exchange":1}}`:          {},
		`{"amqp":{"exchange":"a\u0000b"}}`: {},
		`{"amqp":{"exchange":"` + strings.Repeat("e", 256) + `"}}`: {},
	} {
		s, err := Parse(document)
		if want == (AMQP{}) {
			if e, is := errors.AsType[*clock.Error](err); !is || !strings.HasPrefix(e.Field, "amqp") && e.Field != "x" {
				t.Errorf("%.60s: error %v", document, err)
			}
			continue
		}
		if err != nil || s.AMQP == nil || *s.AMQP != want {
			t.Errorf("%s is %+v, %v", document, s.AMQP, err)
			continue
		}
		if again, err := Parse(s.Encode()); err != nil || !reflect.DeepEqual(again, s) {
			t.Errorf("%s reads back as %+v, %v", s.Encode(), again, err)
		}
		if shown, err := Parse(`{"amqp":` + string(s.AMQP.JSON()) + `}`); err != nil || *shown.AMQP != want {
			t.Errorf("%s is shown as %s", document, s.AMQP.JSON())
		}
	}
	if got := string((*AMQP)(nil).JSON()); got != "null" {
		t.Errorf("no destination is shown as %s", got)
	}
}

func TestDestinationHasDefaults(t *testing.T) {
	for _, c := range []struct {
		a             *AMQP
		exchange, key string
	}{{nil, "clock", "shop"}, {&AMQP{Exchange: "o"}, "o", "shop"}, {&AMQP{RoutingKey: "k"}, "clock", "k"}, {&AMQP{"o", "k"}, "o", "k"}} {
		if exchange, key := c.a.Destination("shop", "clock"); exchange != c.exchange || key != c.key {
			t.Errorf("%+v: %s %s", c.a, exchange, key)
		}
	}
}
