package clock

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSettingsAreReadAsDocumented(t *testing.T) {
	limit3 := RetryPolicy{Initial: 2 * time.Second, Factor: 1, Cap: time.Minute, Limit: 3}
	onlyLimit := DefaultRetryPolicy()
	onlyLimit.Limit = 0
	for document, want := range map[string]Settings{
		`{}`:                    {},
		` { "target" : null } `: {},
		`{"target":"stream","retry":{"initial":2000,"factor":1,"cap":"1m","limit":3},"ack_timeout":"90s","max_rings":4}`: {
			Target: TargetStream, Retry: &limit3, AckTimeout: new(90 * time.Second), MaxRings: new(4),
		},
		`{"target":"webhook","webhook":{"url":"https://a.example/","secrets":["` + string(oldSecret) + `"]}}`: {
			Target: TargetWebhook, Webhook: NewWebhook("https://a.example/", oldSecret),
		},
		`{"target":"kafka","kafka":{"topic":"shop.rings"}}`:     {Target: TargetKafka, Kafka: NewKafka("shop.rings")},
		`{"kafka":{"topic":"a","key":"none","headers":"lean"}}`: {Kafka: &Kafka{Topic: "a", Key: KafkaKeyNone, Headers: KafkaHeadersLean}},
		`{"target":"grpc","grpc":{"url":"https://a.example:8443","method":"a.B/C","metadata":{"authorization":"x"},"timeout":"1500ms"}}`: {
			Target: TargetGRPC, GRPC: &GRPC{
				URL: "https://a.example:8443", Method: "a.B/C", Metadata: map[string]string{"authorization": "x"}, Timeout: 1500 * time.Millisecond,
				Concurrency: DefaultEndpointConcurrency,
			},
		},
		`{"alarm_targets":["pull","stream","pull"]}`: {AlarmTargets: []TargetKind{TargetStream, TargetPull}},
		`{"paused":true}`:                        {Paused: true},
		`{"paused":false}`:                       {},
		`{"target":"amqp","retry":{"limit":0}}`:  {Target: TargetAMQP, Retry: &onlyLimit},
		`{"retry":{},"ack_timeout":1000}`:        {Retry: new(DefaultRetryPolicy()), AckTimeout: new(time.Second)},
		`{"retry":{"limit":null},"max_rings":1}`: {Retry: new(DefaultRetryPolicy()), MaxRings: new(1)},
	} {
		got, err := ParseSettings(document)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", document, got, err, want)
		}
		again, err := ParseSettings(got.Encode())
		if err != nil || !reflect.DeepEqual(again, want) {
			t.Errorf("%s is encoded as %s: %+v, %v", document, got.Encode(), again, err)
		}
	}
}

func TestWrongSettingsNameTheirField(t *testing.T) {
	for _, c := range []struct{ document, code, field string }{
		{``, CodeInvalidValue, ""},
		{`[]`, CodeInvalidValue, ""},
		{`{"target":"amqp"`, CodeInvalidValue, ""},
		{`{"target":"amqp",}`, CodeInvalidValue, ""},
		{`{} {}`, CodeInvalidValue, ""},
		{`{"max_rings":1}x`, CodeInvalidValue, ""},
		{"{\"target\":\"\xff\"}", CodeInvalidValue, ""},
		{`{"taget":"amqp"}`, CodeUnknownField, "taget"},
		{`{"Target":"amqp"}`, CodeUnknownField, "Target"},
		{`{"retry":{"retries":3}}`, CodeUnknownField, "retry.retries"},
		{`{"max_rings":1,"max_rings":2}`, CodeAmbiguous, "max_rings"},
		{`{"retry":{"cap":"1m","cap":"1m"}}`, CodeAmbiguous, "retry.cap"},
		{`{"target":"pigeon"}`, CodeInvalidValue, "target"},
		{`{"target":""}`, CodeInvalidValue, "target"},
		{`{"target":"webhook"}`, CodeRequired, "webhook"},
		{`{"webhook":{}}`, CodeRequired, "webhook.url"},
		{`{"webhook":"https://a.example/"}`, CodeInvalidValue, "webhook"},
		{`{"target":"kafka"}`, CodeRequired, "kafka"},
		{`{"kafka":"shop"}`, CodeInvalidValue, "kafka"},
		{`{"kafka":{}}`, CodeRequired, "kafka.topic"},
		{`{"kafka":{"topic":1}}`, CodeInvalidValue, "kafka.topic"},
		{`{"kafka":{"topic":"a/b"}}`, CodeInvalidValue, "kafka.topic"},
		{`{"kafka":{"topic":".."}}`, CodeInvalidValue, "kafka.topic"},
		{`{"kafka":{"topic":"` + strings.Repeat("x", 250) + `"}}`, CodeOutOfRange, "kafka.topic"},
		{`{"kafka":{"topic":"a","key":"hash"}}`, CodeInvalidValue, "kafka.key"},
		{`{"kafka":{"topic":"a","headers":"none"}}`, CodeInvalidValue, "kafka.headers"},
		{`{"kafka":{"topic":"a","acks":"all"}}`, CodeUnknownField, "kafka.acks"},
		{`{"target":"grpc"}`, CodeRequired, "grpc"},
		{`{"alarm_targets":["grpc"]}`, CodeRequired, "grpc"},
		{`{"grpc":"https://a.example"}`, CodeInvalidValue, "grpc"},
		{`{"grpc":{"method":"a.B/C"}}`, CodeRequired, "grpc.url"},
		{`{"grpc":{"url":"https://a.example"}}`, CodeRequired, "grpc.method"},
		{`{"grpc":{"url":"https://a.example/x","method":"a.B/C"}}`, CodeInvalidValue, "grpc.url"},
		{`{"grpc":{"url":"https://a.example?x","method":"a.B/C"}}`, CodeInvalidValue, "grpc.url"},
		{`{"grpc":{"url":"https://a.example","method":"a.B"}}`, CodeInvalidValue, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C/D"}}`, CodeInvalidValue, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"/a.B/C"}}`, CodeInvalidValue, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"a..B/C"}}`, CodeInvalidValue, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"` + strings.Repeat("a", 600) + `/C"}}`, CodeOutOfRange, "grpc.method"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","metadata":{"grpc-timeout":"1S"}}}`, CodeInvalidValue, "grpc.metadata.grpc-timeout"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","metadata":{"x-Bin":"x"}}}`, CodeInvalidValue, "grpc.metadata.x-Bin"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","metadata":{"x-clockd-a":"x"}}}`, CodeInvalidValue, "grpc.metadata.x-clockd-a"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","timeout":"1ms"}}`, CodeOutOfRange, "grpc.timeout"},
		{`{"grpc":{"url":"https://a.example","method":"a.B/C","concurrency":0}}`, CodeOutOfRange, "grpc.concurrency"},
		{`{"target":1}`, CodeInvalidValue, "target"},
		{`{"alarm_targets":"stream"}`, CodeInvalidValue, "alarm_targets"},
		{`{"alarm_targets":["stream",""]}`, CodeInvalidValue, "alarm_targets"},
		{`{"alarm_targets":["webhook"]}`, CodeRequired, "webhook"},
		{`{"alarm_targets":["kafka"]}`, CodeRequired, "kafka"},
		{`{"retry":3}`, CodeInvalidValue, "retry"},
		{`{"retry":{"initial":"soon"}}`, CodeInvalidValue, "retry.initial"},
		{`{"retry":{"initial":"1m"}}`, CodeOutOfRange, "retry.cap"},
		{`{"retry":{"factor":"2"}}`, CodeInvalidValue, "retry.factor"},
		{`{"retry":{"factor":0.5}}`, CodeOutOfRange, "retry.factor"},
		{`{"retry":{"limit":-1}}`, CodeOutOfRange, "retry.limit"},
		{`{"retry":{"limit":1.5}}`, CodeInvalidValue, "retry.limit"},
		{`{"ack_timeout":"0s"}`, CodeOutOfRange, "ack_timeout"},
		{`{"ack_timeout":"25h"}`, CodeOutOfRange, "ack_timeout"},
		{`{"ack_timeout":"-1s"}`, CodeInvalidValue, "ack_timeout"},
		{`{"ack_timeout":true}`, CodeInvalidValue, "ack_timeout"},
		{`{"paused":1}`, CodeInvalidValue, "paused"},
		{`{"max_rings":0}`, CodeOutOfRange, "max_rings"},
		{`{"max_rings":"3"}`, CodeInvalidValue, "max_rings"},
		{`{"max_rings":99999999999}`, CodeInvalidValue, "max_rings"},
		{`{"target":"` + strings.Repeat("x", MaxSettings) + `"}`, CodeOutOfRange, ""},
	} {
		s, err := ParseSettings(c.document)
		e, is := errors.AsType[*Error](err)
		if !is || e.Code != c.code || e.Field != c.field || !errors.Is(err, ErrInvalid) || e.Detail == "" {
			t.Errorf("%.80s: %+v, want code %s and field %q", c.document, err, c.code, c.field)
		}
		if !reflect.DeepEqual(s, Settings{}) {
			t.Errorf("%.80s: settings beside an error: %+v", c.document, s)
		}
	}
}

func TestEveryTargetKindHasAName(t *testing.T) {
	for _, k := range TargetKinds() {
		if parsed, err := ParseTargetKind(k.String()); err != nil || parsed != k || k.String() == "" {
			t.Errorf("kind %d is named %q and read as %d, %v", k, k, parsed, err)
		}
	}
	if len(TargetKinds()) != len(targetNames) || len(SettingFields) != len(settingFields) {
		t.Error("a list lacks an element of its map")
	}
}

func FuzzParseSettings(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"target":"stream","retry":{"initial":"2s","factor":1.5,"cap":"1m","limit":3},"ack_timeout":"1m30s","max_rings":4}`,
		`{"kafka":{"topic":"a","key":"application","headers":"lean"}}`, `{"retry":{"limit":null}}`, `{"max_rings":1e2}`, `{"target":null}`, `[{`, `{"a":{}}`, `{"alarm_targets":["pull"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		s, err := ParseSettings(document)
		if err != nil {
			if e, is := errors.AsType[*Error](err); !is || e.Code == "" || e.Detail == "" {
				t.Fatalf("%q: an error without code or detail: %v", document, err)
			}
			return
		}
		again, err := ParseSettings(s.Encode())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%q is read as %+v and encoded as %s, which is read as %+v, %v", document, s, s.Encode(), again, err)
		}
	})
}

// defaultedSet returns a set that names no option, with the defaults of the settings.
func defaultedSet(settings *Settings) *Set {
	s := &Set{Key: Key{Application: "shop", BusinessID: "1"}, Content: Content{
		RingAt: 5000, LatestRingAt: NoInstant, ContentType: "text/plain", Retry: DefaultRetryPolicy(), MaxRings: DefaultMaxRings,
	}, Omitted: RetryOption | AckTimeoutOption | MaxRingsOption}
	return s.withDefaults(settings)
}

func TestSettingsFillOmittedOptionsOnly(t *testing.T) {
	slow := RetryPolicy{Initial: time.Minute, Factor: 1, Cap: time.Hour, Limit: 7}
	settings := &Settings{Retry: &slow, AckTimeout: new(30 * time.Second), MaxRings: new(3)}
	given := &Set{Content: Content{Retry: DefaultRetryPolicy(), MaxRings: 9}}
	if r := given.withDefaults(settings); r.Retry != DefaultRetryPolicy() || r.AckTimeout != 0 || r.MaxRings != 9 || r.Defaulted != 0 {
		t.Errorf("a set that names all options: %+v", r)
	}
	omitted := &Set{Content: given.Content, Omitted: RetryOption | AckTimeoutOption | MaxRingsOption}
	if r := omitted.withDefaults(settings); r.Retry != slow || r.AckTimeout != 30*time.Second || r.MaxRings != 3 || omitted.MaxRings != 9 {
		t.Errorf("a set that names no option: %+v", r)
	}
	omitted.Delivery = AtMostOnce
	if r := omitted.withDefaults(settings); r.AckTimeout != 0 || r.Retry != slow {
		t.Errorf("a set at most once: %+v", r)
	}
}

// A repeated set must not ring twice because the settings have changed meanwhile. A waiting alarm gets the new defaults.
func TestRepeatedSetAfterAChangeOfSettings(t *testing.T) {
	before, after := &Settings{}, &Settings{AckTimeout: new(time.Minute), MaxRings: new(2)}
	row := Op{Set: defaultedSet(before)}.Decide(nil, 1000).Alarm
	if d := (Op{Set: defaultedSet(after)}).Decide(&row, 2000); d.Verdict != Replace || d.Alarm.AckTimeout != time.Minute {
		t.Errorf("a waiting alarm: %s, %+v", d.Verdict, d.Alarm.Content)
	}
	for _, state := range []State{Rung, Expired, Dead} {
		over := row
		over.State, over.NextTryTime, over.FinishedAt = state, NoInstant, 3000
		if d := (Op{Set: defaultedSet(after)}).Decide(&over, 4000); d.Verdict != Keep {
			t.Errorf("an alarm that is %s: %s", state, d.Verdict)
		}
		named := defaultedSet(after)
		named.Defaulted = 0
		if d := (Op{Set: named}).Decide(&over, 4000); d.Verdict != Rearm {
			t.Errorf("an alarm that is %s, and a set that names its options: %s", state, d.Verdict)
		}
		other := defaultedSet(after)
		other.RingAt++
		if d := (Op{Set: other}).Decide(&over, 4000); d.Verdict != Rearm {
			t.Errorf("an alarm that is %s, and a set with another time: %s", state, d.Verdict)
		}
	}
	repeat := defaultedSet(after)
	repeat.If = Condition{Kind: AtGeneration, Generation: row.Generation - 1}
	if d := (Op{Set: repeat}).Decide(&row, 2000); d.Verdict != Keep {
		t.Errorf("the repeat of a conditional set: %s", d.Verdict)
	}
}
