package settings

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

func TestSettingsAreReadAsDocumented(t *testing.T) {
	limit3 := clock.RetryPolicy{Initial: 2 * time.Second, Factor: 1, Cap: time.Minute, Limit: 3}
	onlyLimit := clock.DefaultRetryPolicy()
	onlyLimit.Limit = 0
	for document, want := range map[string]Settings{
		`{}`:                    {},
		` { "target" : null } `: {},
		`{"target":"stream","retry":{"initial":2000,"factor":1,"cap":"1m","limit":3},"ack_timeout":"90s","max_rings":4}`: {
			Defaults: clock.Defaults{Target: clock.TargetStream, Retry: &limit3, AckTimeout: new(90 * time.Second),
				MaxRings: new(4)},
		},
		`{"target":"webhook","webhook":{"url":"https://a.example/","secrets":["` + string(oldSecret) + `"]}}`: {
			Defaults: clock.Defaults{Target: clock.TargetWebhook}, Webhook: NewWebhook("https://a.example/", oldSecret),
		},
		`{"target":"kafka","kafka":{"topic":"shop.rings"}}`: {Defaults: clock.Defaults{Target: clock.TargetKafka},
			Kafka: NewKafka("shop.rings")},
		`{"kafka":{"topic":"a","key":"none","headers":"lean"}}`: {Kafka: &Kafka{Topic: "a", Key: KafkaKeyNone,
			Headers: KafkaHeadersLean}},
		`{"target":"grpc","grpc":{"url":"https://a.example:8443","method":"a.B/C","metadata":{"authorization":"x"},"timeout":"1500ms"}}`: {
			Defaults: clock.Defaults{Target: clock.TargetGRPC}, GRPC: &GRPC{
				URL: "https://a.example:8443", Method: "a.B/C", Metadata: map[string]string{"authorization": "x"},
				Timeout:     1500 * time.Millisecond,
				Concurrency: DefaultEndpointConcurrency,
			},
		},
		`{"alarm_targets":["pull","stream","pull"]}`: {Defaults: clock.Defaults{Allowed: []clock.TargetKind{clock.TargetStream, clock.TargetPull}}},
		`{"paused":true}`:  {Paused: true},
		`{"paused":false}`: {},
		`{"target":"amqp","retry":{"limit":0}}`: {Defaults: clock.Defaults{Target: clock.TargetAMQP,
			Retry: &onlyLimit}},
		`{"retry":{},"ack_timeout":1000}`: {Defaults: clock.Defaults{Retry: new(clock.DefaultRetryPolicy()),
			AckTimeout: new(time.Second)}},
		`{"retry":{"limit":null},"max_rings":1}`: {Defaults: clock.Defaults{Retry: new(clock.DefaultRetryPolicy()),
			MaxRings: new(1)}},
	} {
		got, err := Parse(document)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", document, got, err, want)
		}
		again, err := Parse(got.Encode())
		if err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s is encoded as %s: %+v, %v", document, got.Encode(), again, err)
		}
	}
}

func TestWrongSettingsNameTheirField(t *testing.T) {
	for _, c := range []struct{ document, code, field string }{
		{``, clock.CodeInvalidValue, ""},
		{`[]`, clock.CodeInvalidValue, ""},
		{`{"target":"amqp"`, clock.CodeInvalidValue, ""},
		{`{"target":"amqp",}`, clock.CodeInvalidValue, ""},
		{`{} {}`, clock.CodeInvalidValue, ""},
		{`{"max_rings":1}x`, clock.CodeInvalidValue, ""},
		{"{\"target\":\"\xff\"}", clock.CodeInvalidValue, ""},
		{`{"taget":"amqp"}`, clock.CodeUnknownField, "taget"},
		{`{"Target":"amqp"}`, clock.CodeUnknownField, "Target"},
		{`{"retry":{"retries":3}}`, clock.CodeUnknownField, "retry.retries"},
		{`{"max_rings":1,"max_rings":2}`, clock.CodeAmbiguous, "max_rings"},
		{`{"retry":{"cap":"1m","cap":"1m"}}`, clock.CodeAmbiguous, "retry.cap"},
		{`{"target":"pigeon"}`, clock.CodeInvalidValue, "target"},
		{`{"target":""}`, clock.CodeInvalidValue, "target"},
		{`{"target":"webhook"}`, clock.CodeRequired, "webhook"},
		{`{"webhook":{}}`, clock.CodeRequired, "webhook.url"},
		{`{"webhook":"https://a.example/"}`, clock.CodeInvalidValue, "webhook"},
		{`{"target":"kafka"}`, clock.CodeRequired, "kafka"},
		{`{"kafka":"shop"}`, clock.CodeInvalidValue, "kafka"},
		{`{"kafka":{}}`, clock.CodeRequired, "kafka.topic"},
		{`{"kafka":{"topic":1}}`, clock.CodeInvalidValue, "kafka.topic"},
		{`{"kafka":{"topic":"a/b"}}`, clock.CodeInvalidValue, "kafka.topic"},
		{`{"kafka":{"topic":".."}}`, clock.CodeInvalidValue, "kafka.topic"},
		{`{"kafka":{"topic":"` + strings.Repeat("x", 250) + `"}}`, clock.CodeOutOfRange, "kafka.topic"},
		{`{"kafka":{"topic":"a","key":"hash"}}`, clock.CodeInvalidValue, "kafka.key"},
		{`{"kafka":{"topic":"a","headers":"none"}}`, clock.CodeInvalidValue, "kafka.headers"},
		{`{"kafka":{"topic":"a","acks":"all"}}`, clock.CodeUnknownField, "kafka.acks"},
		{`{"target":"grpc"}`, clock.CodeRequired, "grpc"},
		{`{"alarm_targets":["grpc"]}`, clock.CodeRequired, "grpc"},
		{`{"grpc":"https://a.example"}`, clock.CodeInvalidValue, "grpc"},
		{`{"grpc":{"method":"a.B/C"}}`, clock.CodeRequired, "grpc.url"},
		{`{"grpc":{"url":"https://a.example"}}`, clock.CodeRequired, "grpc.method"},
		{`{"grpc":{"url":"https://a.example/x","method":"a.B/C"}}`, clock.CodeInvalidValue, "grpc.url"},
		{`{"grpc":{"url":"https://a.example?x","method":"a.B/C"}}`, clock.CodeInvalidValue, "grpc.url"},
		{`{"grpc":{"url":"https://a.example","method":"a.B"}}`, clock.CodeInvalidValue, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C/D"}}`, clock.CodeInvalidValue, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"/a.B/C"}}`, clock.CodeInvalidValue, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"a..B/C"}}`, clock.CodeInvalidValue, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"` + strings.Repeat("a", 600) + `/C"}}`, clock.CodeOutOfRange,
			"grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","metadata":{"grpc-timeout":"1S"}}}`,
			clock.CodeInvalidValue, "grpc.metadata.grpc-timeout"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","metadata":{"x-Bin":"x"}}}`, clock.CodeInvalidValue,
			"grpc.metadata.x-Bin"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","metadata":{"x-clockd-a":"x"}}}`, clock.CodeInvalidValue,
			"grpc.metadata.x-clockd-a"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","timeout":"1ms"}}`, clock.CodeOutOfRange, "grpc.timeout"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","concurrency":0}}`, clock.CodeOutOfRange,
			"grpc.concurrency"},
		{`{"target":1}`, clock.CodeInvalidValue, "target"},
		{`{"alarm_targets":"stream"}`, clock.CodeInvalidValue, "alarm_targets"},
		{`{"alarm_targets":["stream",""]}`, clock.CodeInvalidValue, "alarm_targets"},
		{`{"alarm_targets":["webhook"]}`, clock.CodeRequired, "webhook"},
		{`{"alarm_targets":["kafka"]}`, clock.CodeRequired, "kafka"},
		{`{"retry":3}`, clock.CodeInvalidValue, "retry"},
		{`{"retry":{"initial":"soon"}}`, clock.CodeInvalidValue, "retry.initial"},
		{`{"retry":{"initial":"1m"}}`, clock.CodeOutOfRange, "retry.cap"},
		{`{"retry":{"factor":"2"}}`, clock.CodeInvalidValue, "retry.factor"},
		{`{"retry":{"factor":0.5}}`, clock.CodeOutOfRange, "retry.factor"},
		{`{"retry":{"limit":-1}}`, clock.CodeOutOfRange, "retry.limit"},
		{`{"retry":{"limit":1.5}}`, clock.CodeInvalidValue, "retry.limit"},
		{`{"ack_timeout":"0s"}`, clock.CodeOutOfRange, "ack_timeout"},
		{`{"ack_timeout":"25h"}`, clock.CodeOutOfRange, "ack_timeout"},
		{`{"ack_timeout":"-1s"}`, clock.CodeInvalidValue, "ack_timeout"},
		{`{"ack_timeout":true}`, clock.CodeInvalidValue, "ack_timeout"},
		{`{"paused":1}`, clock.CodeInvalidValue, "paused"},
		{`{"max_rings":0}`, clock.CodeOutOfRange, "max_rings"},
		{`{"max_rings":"3"}`, clock.CodeInvalidValue, "max_rings"},
		{`{"max_rings":99999999999}`, clock.CodeInvalidValue, "max_rings"},
		{`{"target":"` + strings.Repeat("x", MaxDocument) + `"}`, clock.CodeOutOfRange, ""},
	} {
		s, err := Parse(c.document)
		e, is := errors.AsType[*clock.Error](err)
		if !is || e.Code != c.code || e.Field != c.field || !errors.Is(err, clock.ErrInvalid) || e.Detail == "" {
			t.Errorf("%.80s: %+v, want code %s and field %q", c.document, err, c.code, c.field)
		}
		if !reflect.DeepEqual(s, Settings{}) {
			t.Errorf("%.80s: settings beside an error: %+v", c.document, s)
		}
	}
}

func TestEveryFieldIsDecoded(t *testing.T) {
	if len(Fields) != len(settingFields) {
		t.Error("a list lacks an element of its map")
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"target":"stream","retry":{"initial":"2s","factor":1.5,"cap":"1m","limit":3},"ack_timeout":"1m30s","max_rings":4}`,
		`{"kafka":{"topic":"a","key":"application","headers":"lean"}}`, `{"retry":{"limit":null}}`, `{"max_rings":1e2}`,
		`{"target":null}`, `[{`, `{"a":{}}`, `{"alarm_targets":["pull"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		s, err := Parse(document)
		if err != nil {
			if e, is := errors.AsType[*clock.Error](err); !is || e.Code == "" || e.Detail == "" {
				t.Fatalf("%q: an error without code or detail: %v", document, err)
			}
			return
		}
		again, err := Parse(s.Encode())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%q is read as %+v and encoded as %s, which is read as %+v, %v", document, s, s.Encode(), again,
				err)
		}
	})
}
