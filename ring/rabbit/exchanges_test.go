package rabbit

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// messages returns n rings of messages that waited for their time.
func messages(tb testing.TB, exchange, routingKey string, n int) []clock.Ring {
	tb.Helper()
	encoded, err := wire.EncodeProperties(&amqp.Delivery{MessageId: "of the sender", DeliveryMode: amqp.Persistent})
	if err != nil {
		tb.Fatal(err)
	}
	rings := rings("shop", n)
	for i := range rings {
		rings[i].Message = &clock.Message{Exchange: exchange, RoutingKey: routingKey, Properties: encoded}
		rings[i].PayloadKind = clock.Binary
	}
	return rings
}

// anyHeaders has a header of each type that the library reads.
var anyHeaders = amqp.Table{
	"nil": nil, "true": true, "false": false, "int8": int8(-1), "byte": byte(200), "int16": int16(-2),
	"uint16": uint16(65535), "int32": int32(-3),
	"uint32": uint32(math.MaxUint32), "int64": int64(math.MinInt64), "float32": float32(1.5), "float64": math.Pi,
	"decimal": amqp.Decimal{Scale: 2, Value: 12345}, "text": "täxt", "bytes": []byte{0, 255},
	"time":  time.Unix(1_700_000_000, 0),
	"table": amqp.Table{"in": amqp.Table{"deeper": []any{int32(1), "two", amqp.Table{"three": true}}}},
	"array": []any{int16(7)}, "": "empty name",
}

func TestMessageGoesToItsExchangeAsItCame(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	exchange, queue := b.OtherExchange("order.*")
	original := amqp.Delivery{
		Headers: anyHeaders, ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Transient,
		Priority:      7,
		CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "of the sender",
		Timestamp: time.Unix(1_700_000_000, 0),
		Type:      "t", UserId: "guest", AppId: "a",
	}
	encoded, err := wire.EncodeProperties(&original)
	if err != nil {
		t.Fatal(err)
	}
	full, bare := rings("shop", 1)[0], rings("shop", 1)[0]
	full.Message = &clock.Message{Exchange: exchange, RoutingKey: "order.full", Properties: encoded}
	bare.Message, bare.Payload = &clock.Message{Exchange: exchange, RoutingKey: "order.bare", Properties: []byte{0, 0}}, nil
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), []clock.Ring{full, bare}, ampleLimits()), clock.Confirmed)

	got := b.Take(queue, 2)
	for i, want := range []struct {
		headers amqp.Table
		ring    *clock.Ring
	}{{anyHeaders, &full}, {amqp.Table{}, &bare}} {
		if got[i].Headers[headerOurMessageID] != want.ring.MessageID() ||
			got[i].Headers[headerOurRingAt] != int64(want.ring.RingAt) {
			t.Errorf("headers of ours: %v", got[i].Headers)
		}
		delete(got[i].Headers, headerOurMessageID)
		delete(got[i].Headers, headerOurRingAt)
		if !reflect.DeepEqual(got[i].Headers, want.headers) {
			t.Errorf("headers\n%v, want\n%v", got[i].Headers, want.headers)
		}
		if got[i].RoutingKey != want.ring.Message.RoutingKey || !bytes.Equal(got[i].Body, want.ring.Payload) {
			t.Errorf("%q %q", got[i].RoutingKey, got[i].Body)
		}
	}
	again, err := wire.EncodeProperties(&amqp.Delivery{
		Headers: anyHeaders, ContentType: got[0].ContentType, ContentEncoding: got[0].ContentEncoding,
		DeliveryMode: got[0].DeliveryMode,
		Priority:     got[0].Priority, CorrelationId: got[0].CorrelationId, ReplyTo: got[0].ReplyTo,
		Expiration: got[0].Expiration,
		MessageId:  got[0].MessageId, Timestamp: got[0].Timestamp, Type: got[0].Type, AppId: got[0].AppId,
	})
	if err != nil || !bytes.Equal(again, encoded) {
		t.Errorf("the properties have changed: %+v, %v", got[0], err)
	}
	if got[0].UserId != "" {
		t.Error("the message has a user_id")
	}
}

// The library reads a returned message with all its headers, and ends the connection for too many.
func TestMessageWithoutAQueueIsReturned(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	exchange, queue := b.OtherExchange("bound")
	batch := append(messages(t, exchange, "unbound", 2), messages(t, exchange, "bound", 2)...)
	var err error
	batch[1].Message.Properties, err = wire.EncodeProperties(&amqp.Delivery{Headers: rabbittest.Numbered(wire.MaxTableElements)})
	b.Must(err)
	l := laneOf(t, s)
	var first *wire.Link
	for range 2 {
		outcomes := openAndDeliver(t.Context(), l, batch, ampleLimits())
		wantAll(t, outcomes[:2], clock.Returned)
		wantAll(t, outcomes[2:], clock.Confirmed)
		for _, o := range outcomes[:2] {
			if !strings.Contains(o.Reason, "NO_ROUTE") || !strings.Contains(o.Reason, `"unbound"`) {
				t.Errorf("reason: %s", o.Reason)
			}
		}
		if first == nil {
			first = l.link
		}
		if l.link != first || first.IsClosed() {
			t.Error("the connection has ended")
		}
	}
	b.Take(queue, 4)
}

// The broker closes a channel with a ring to a missing exchange, and does not say what became of the channel's other
// rings.
func TestMissingExchangeOfAMessageDelaysNoOtherRing(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", nil)
	exchange, others := b.OtherExchange("key")
	missing := rabbittest.Unique("missing")
	l := laneOf(t, s)
	batch := append(messages(t, missing, "key", 1), append(messages(t, exchange, "key", 1), rings("shop", 1)...)...)
	for range 2 {
		outcomes := openAndDeliver(t.Context(), l, batch, ampleLimits())
		wantAll(t, outcomes[:1], clock.Returned)
		wantAll(t, outcomes[1:], clock.Confirmed)
		if !strings.Contains(outcomes[0].Reason, missing) {
			t.Errorf("reason: %s", outcomes[0].Reason)
		}
	}
	if err := s.Usable(); err != nil {
		t.Errorf("not usable: %v", err)
	}
	b.Take(queue, 2)
	b.Take(others, 2)

	b.Must(b.Ch.ExchangeDeclare(missing, amqp.ExchangeFanout, true, false, false, false, nil))
	defer func() { _ = b.Ch.ExchangeDelete(missing, false, false) }()
	b.Must(b.Ch.QueueBind(queue, "", missing, false, nil))
	rabbittest.Eventually(t, time.Minute, "the new exchange is found", func() bool {
		return openAndDeliver(t.Context(), l, batch[:1], ampleLimits())[0].Kind == clock.Confirmed
	})
}

func TestExchangeThatIsDeletedLeavesOnlyItsOwnRingsInDoubt(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", nil)
	exchange, _ := b.OtherExchange("key")
	l := laneOf(t, s)
	batch := append(messages(t, exchange, "key", 2), rings("shop", 1)...)
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed)
	b.Must(b.Ch.ExchangeDelete(exchange, false, false))

	outcomes := openAndDeliver(t.Context(), l, batch, ampleLimits())
	wantAll(t, outcomes[:2], clock.Doubtful)
	wantAll(t, outcomes[2:], clock.Confirmed)
	if err := s.Usable(); err != nil {
		t.Errorf("not usable: %v", err)
	}
	rabbittest.Eventually(t, time.Minute, "the exchange is known to be missing", func() bool {
		outcomes := openAndDeliver(t.Context(), l, batch, ampleLimits())
		wantAll(t, outcomes[2:], clock.Confirmed)
		return outcomes[0].Kind == clock.Returned && outcomes[1].Kind == clock.Returned
	})
	b.Arrived(queue)
}

// If a channel has one ring without a confirm, the broker refuses that ring.
func TestOnlyRingToADeletedExchangeIsReturned(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	exchange, _ := b.OtherExchange("key")
	l := laneOf(t, s)
	batch := messages(t, exchange, "key", 1)
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed)
	b.Must(b.Ch.ExchangeDelete(exchange, false, false))
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Returned)
}

// The broker refuses messages to an internal exchange, although the exchange exists. No ring to it is in doubt.
func TestInternalExchangeLeavesNoRingInDoubt(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	internal := rabbittest.Unique("internal")
	b.Must(b.Ch.ExchangeDeclare(internal, amqp.ExchangeFanout, true, false, true, false, nil))
	defer func() { _ = b.Ch.ExchangeDelete(internal, false, false) }()
	exchange, others := b.OtherExchange("key")
	l := laneOf(t, s)
	batch := append(messages(t, internal, "key", 3), messages(t, exchange, "key", 2)...)
	for range 2 {
		outcomes := openAndDeliver(t.Context(), l, batch, ampleLimits())
		wantAll(t, outcomes[:3], clock.Returned)
		wantAll(t, outcomes[3:], clock.Confirmed)
		if !strings.Contains(outcomes[2].Reason, "cannot publish to internal exchange") {
			t.Errorf("reason: %s", outcomes[2].Reason)
		}
	}
	b.Take(others, 4)
}

// A side channel that is too small for a batch is replaced.
func TestBatchesOfMessagesMayGrow(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	exchange, queue := b.OtherExchange("key")
	l := laneOf(t, s)
	for _, n := range []int{1, 2 * minSideReturns, minReturns + 1} {
		wantAll(t, openAndDeliver(t.Context(), l, messages(t, exchange, "key", n), ampleLimits()), clock.Confirmed)
		b.Take(queue, n)
	}
}

// A message that cannot be unpacked or divided is refused alone.
func TestUnreadableMessageIsRefused(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	exchange, queue := b.OtherExchange("key")
	batch := messages(t, exchange, "key", 3)
	batch[0].Message.Properties = []byte{0xff}
	batch[1].Message, batch[1].PayloadKind = nil, clock.MessagePayload
	outcomes := openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits())
	wantAll(t, outcomes[:2], clock.Refused)
	wantAll(t, outcomes[2:], clock.Confirmed)
	b.Take(queue, 1)
}

// FuzzDivideProperties: the parts of divided properties are the whole.
func FuzzDivideProperties(f *testing.F) {
	encoded, err := wire.EncodeProperties(&amqp.Delivery{Headers: anyHeaders, ContentType: "text/plain", MessageId: "m"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(encoded)
	f.Add([]byte{0, 0})
	f.Add([]byte{0xff, 0xff, 3, 'a'})
	f.Fuzz(func(t *testing.T, encoded []byte) {
		p, err := wire.DivideProperties(encoded)
		if err != nil {
			return
		}
		size := 2 + len(p.Before) + len(p.Fields) + len(p.After)
		if p.Flags&wire.FlagHeaders != 0 {
			size += 4
		}
		if size != len(encoded) || !bytes.HasSuffix(encoded, p.After) || !bytes.HasPrefix(encoded[2:], p.Before) {
			t.Errorf("%x is divided into %+v", encoded, p)
		}
	})
}

func TestHeadersWithoutEndAreRefused(t *testing.T) {
	t.Parallel()
	deep := any("x")
	for range wire.MaxTableDepth + 2 {
		deep = []any{deep}
	}
	if _, err := wire.EncodeProperties(&amqp.Delivery{Headers: amqp.Table{"deep": deep}}); !errors.Is(err, wire.ErrDeepTable) {
		t.Errorf("deep headers: %v", err)
	}
	if _, err := wire.EncodeProperties(&amqp.Delivery{Headers: amqp.Table{"struct": struct{}{}}}); err == nil {
		t.Error("a header of an unknown type was encoded")
	}
}

// Rings of an application go where its settings say, also while the settings change, and never to an exchange that is
// not allowed.
func TestRingsGoToTheirApplicationsDestination(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	exchange, queue := b.OtherExchange("due")
	var destination atomic.Pointer[Destination]
	cfg := configOf(b)
	cfg.Exchanges, cfg.Headers = []string{exchange}, LeanHeaders
	s := runWith(t, cfg, Deps{Destination: func(application string) *Destination {
		if application == "shop" {
			return destination.Load()
		}
		return nil
	}})
	waitUsable(t, s, time.Minute)
	own, l := b.Queue("shop", nil), laneOf(t, s)
	deliver := func() []clock.Outcome { return openAndDeliver(t.Context(), l, rings("shop", 3), ampleLimits()) }

	wantAll(t, deliver(), clock.Confirmed)
	b.Take(own, 3)
	destination.Store(&Destination{Exchange: exchange, RoutingKey: "due"})
	s.DestinationsChanged()
	wantAll(t, deliver(), clock.Confirmed)
	for _, d := range b.Take(queue, 3) {
		if d.RoutingKey != "due" || d.Headers[headerApplication] != "shop" || d.Headers[headerBusinessID] != nil {
			t.Errorf("ring %q has the headers %v", d.RoutingKey, d.Headers)
		}
	}
	destination.Store(&Destination{RoutingKey: "nobody"})
	outcomes := deliver()
	wantAll(t, outcomes, clock.Returned)
	if !strings.Contains(outcomes[0].Reason, `"nobody"`) {
		t.Errorf("reason: %s", outcomes[0].Reason)
	}
	destination.Store(&Destination{Exchange: "amq.topic", RoutingKey: "due"})
	if s.Accepts("shop") == nil || s.Accepts("other") != nil {
		t.Error("the exchange amq.topic is allowed")
	}
	wantAll(t, deliver(), clock.Untaken)
	b.Empty(own)
	b.Empty(queue)
}
