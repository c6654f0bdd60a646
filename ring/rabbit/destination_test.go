package rabbit

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

func TestDestinationReadsBackAsWritten(t *testing.T) {
	form := settings.NewForm(Part)
	for document, want := range map[string]Destination{
		`{"amqp":{"exchange":"orders"}}`:                      {Exchange: "orders"},
		`{"amqp":{"routing_key":"due.\"x\" <ä>"}}`:            {RoutingKey: `due."x" <ä>`},
		`{"amqp":{"exchange":"orders","routing_key":"due"}}`:  {Exchange: "orders", RoutingKey: "due"},
		`{"target":"amqp","amqp":{"exchange":"o","x":null}}`:  {},
		`{"amqp":{"headers":{"x-a":"ä"},"expiration":"10m"}}`: {Headers: map[string]string{"x-a": "ä"}, Expiration: 10 * time.Minute},
		`{"amqp":{"alarm_fields":{"exchange":["o*"],"expiration":["*"]}}}`: {
			AlarmFields: settings.Patterns{"exchange": {"o*"}, "expiration": {"*"}}},
		`{"amqp":{"headers":{"a":"` + strings.Repeat("x", maxHeaderBytes) + `"}}}`: {},
		`{"amqp":{"headers":{"CC":"a"}}}`:                                          {},
		`{"amqp":{"headers":{"x-ring-no":"a"}}}`:                                   {},
		`{"amqp":{"headers":{"X-Ring-No":"a"}}}`:                                   {},
		`{"amqp":{"headers":{"x-clockd-ring":"a"}}}`:                               {},
		`{"amqp":{"headers":{"":"a"}}}`:                                            {},
		`{"amqp":{"headers":{"x-a":"\u0001"}}}`:                                    {},
		`{"amqp":{"expiration":"0.5ms"}}`:                                          {},
		`{"amqp":{"expiration":"721h"}}`:                                           {},
		`{"amqp":{"alarm_fields":{"priority":["*"]}}}`:                             {},
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

// Fields that an alarm brings replace those of the settings; its headers join theirs.
func TestOwnFieldsJoinTheSettings(t *testing.T) {
	ofSettings := &Destination{Exchange: "o", RoutingKey: "k", Headers: map[string]string{"a": "1", "b": "2"}, Expiration: time.Hour}
	for _, c := range []struct{ own, want Destination }{
		{Destination{}, *ofSettings},
		{Destination{RoutingKey: "x", Headers: map[string]string{"b": "3", "c": "4"}, Expiration: time.Second},
			Destination{Exchange: "o", RoutingKey: "x", Headers: map[string]string{"a": "1", "b": "3", "c": "4"}, Expiration: time.Second}},
		{Destination{Exchange: "p"}, Destination{Exchange: "p", RoutingKey: "k", Headers: ofSettings.Headers, Expiration: time.Hour}},
	} {
		if got := ofSettings.with(&c.own); !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%+v: %+v, want %+v", c.own, got, c.want)
		}
	}
	own := Destination{Headers: map[string]string{"a": "1"}}
	if got := new(Destination).with(&own); !reflect.DeepEqual(*got, own) || ofSettings.Headers["b"] != "2" {
		t.Errorf("%+v; the settings are %+v", got, ofSettings)
	}
}
