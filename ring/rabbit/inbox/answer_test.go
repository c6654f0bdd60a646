package inbox

import (
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// headers is a short name for tables in test cases.
type headers = amqp.Table

func TestParseAnswerReadsEveryForm(t *testing.T) {
	t.Parallel()
	ring := clock.RingID{AlarmID: 4711, Generation: 3, RingNo: 2}
	given := func(d time.Duration) clock.Delay { return clock.Delay{Given: true, Span: d} }
	for name, test := range map[string]struct {
		d    amqp.Delivery
		want clock.Answer
	}{
		"correlation id": {
			amqp.Delivery{Type: "alarm.ack", CorrelationId: "4711.3.2"},
			clock.Answer{Kind: clock.Ack, Ring: ring, By: "amqp"},
		},
		"header before correlation id": {
			amqp.Delivery{Type: "alarm.ack", CorrelationId: "mine", Headers: headers{"x-message-id": "4711.3.2"},
				AppId: "shop", UserId: "guest"},
			clock.Answer{Kind: clock.Ack, Ring: ring, By: "shop"},
		},
		"bytes": {
			amqp.Delivery{Type: "alarm.bury", UserId: "guest",
				Headers: headers{"x-message-id": []byte("4711.3.2"), "x-reason": []byte("no stock")}},
			clock.Answer{Kind: clock.Bury, Ring: ring, By: "guest", Reason: "no stock"},
		},
		"sender and reason": {
			amqp.Delivery{Type: "alarm.release", AppId: "shop",
				Headers: headers{"x-message-id": "4711.3.2", "x-by": "worker 7", "x-reason": "later"}},
			clock.Answer{Kind: clock.Release, Ring: ring, By: "worker 7", Reason: "later"},
		},
		"empty and foreign headers": {
			amqp.Delivery{Type: "alarm.touch", CorrelationId: "4711.3.2",
				Headers: headers{"x-message-id": nil, "x-delay": nil, "x-by": "", "x-reason": int32(1)}},
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp"},
		},
		"8 bits": {delayed(int8(-5)),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(-5 * time.Millisecond)}},
		"8 unsigned": {delayed(uint8(200)),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(200 * time.Millisecond)}},
		"16 bits": {delayed(int16(1500)),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(1500 * time.Millisecond)}},
		"16 unsigned": {delayed(uint16(60_000)),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(time.Minute)}},
		"32 bits": {delayed(int32(60_000)),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(time.Minute)}},
		"32 unsigned": {delayed(uint32(math.MaxUint32)),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(math.MaxUint32 * time.Millisecond)}},
		"64 bits": {delayed(int64(0)),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(0)}},
		"longest": {delayed(int64(math.MaxInt64)),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(math.MaxInt64 / 1_000_000 * time.Millisecond)}},
		"AMQP's decimal": {delayed(amqp.Decimal{Scale: 2, Value: 6_000_099}),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(time.Minute)}},
		"decimal": {delayed("60000"),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(time.Minute)}},
		"decimal as bytes": {delayed([]byte("60000")),
			clock.Answer{Kind: clock.Touch, Ring: ring, By: "amqp", Delay: given(time.Minute)}},
	} {
		got, err := parseAnswer(&test.d)
		if err != nil || got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, test.want)
		}
	}
}

// delayed returns a touch of a ring with the x-delay x.
func delayed(x any) amqp.Delivery {
	return amqp.Delivery{Type: "alarm.touch", CorrelationId: "4711.3.2", Headers: headers{"x-delay": x}}
}

// malformed maps a part of the error to a message that is no answer.
var malformed = map[string]amqp.Delivery{
	`type is "", not`:                   {CorrelationId: "1.1.1"},
	`type is "ack", not`:                {Type: "ack", CorrelationId: "1.1.1"},
	`type is "alarm.", not`:             {Type: "alarm.", CorrelationId: "1.1.1"},
	`type is "alarm.ring", not`:         {Type: "alarm.ring", CorrelationId: "1.1.1"},
	"message_id must be":                {Type: "alarm.ack"},
	"message_id must be the message id": {Type: "alarm.ack", CorrelationId: "1.01.1"},
	"x-message-id is not a string": {Type: "alarm.ack", CorrelationId: "1.1.1",
		Headers: headers{"x-message-id": int64(1)}},
	"x-delay is not a number": {Type: "alarm.touch", CorrelationId: "1.1.1",
		Headers: headers{"x-delay": "1.5"}},
	"x-delay is not a number of": {Type: "alarm.touch", CorrelationId: "1.1.1",
		Headers: headers{"x-delay": "1s"}},
	"x-delay is not a number of ": {Type: "alarm.touch", CorrelationId: "1.1.1",
		Headers: headers{"x-delay": true}},
}

func TestParseAnswerSaysWhyAMessageIsNoAnswer(t *testing.T) {
	t.Parallel()
	for want, d := range malformed {
		if got, err := parseAnswer(&d); err == nil || !strings.Contains(err.Error(), want) || got != (clock.Answer{}) {
			t.Errorf("%+v, %v; want %s", got, err, want)
		}
	}
}

// parseAnswer returns a valid answer or an error for every message. The same answer in another form gives the same
// result.
func FuzzParseAnswer(f *testing.F) {
	f.Add("alarm.ack", "4711.3.2", "", "", "", int64(0))
	f.Add("alarm.touch", "", "4711.3.2", "60000", "me", int64(-1))
	f.Add("alarm.release", "x", "1.1.1", "x", "", int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, kind, correlation, id, delay, by string, ms int64) {
		d := amqp.Delivery{Type: kind, CorrelationId: correlation, AppId: by, Headers: headers{"x-delay": ms}}
		if id != "" {
			d.Headers["x-message-id"] = id
		}
		if delay != "" {
			d.Headers["x-delay"], d.Headers["x-by"] = delay, by
		}
		a, err := parseAnswer(&d)
		if err != nil {
			if a != (clock.Answer{}) {
				t.Fatalf("%+v with %v", a, err)
			}
			return
		}
		if again, err := clock.ParseRingID(a.Ring.String()); err != nil || again != a.Ring || a.By == "" ||
			"alarm."+a.Kind.String() != kind {
			t.Fatalf("%+v, %v", a, err)
		}
		if a.Ring.String() != correlation && a.Ring.String() != id {
			t.Fatalf("%+v of %q and %q", a, correlation, id)
		}
		d.Headers["x-delay"] = a.Delay.Span.Milliseconds()
		if again, err := parseAnswer(&d); err != nil || again != a {
			t.Fatalf("%+v, %v; before %+v", again, err, a)
		}
	})
}
