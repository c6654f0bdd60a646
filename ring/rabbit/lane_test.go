package rabbit

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

func TestMessageHasExactlyThePromisedProperties(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	queue := b.queue("shop", nil)
	full := clock.Ring{
		AlarmID: 4711, Key: clock.Key{Application: "shop", BusinessID: "order/1 % ü"},
		Generation: 3, RingNo: 2, RetryTimes: 5, RingAt: 1_700_000_000_999, RungAt: 1_700_000_001_456,
		ClaimID: "c1", Payload: []byte("hello"), ContentType: "text/plain; charset=utf-8",
		AckTimeout: time.Minute, Priority: 7, Traceparent: "00-aa-bb-01",
	}
	bare := clock.Ring{
		AlarmID: 4712, Key: clock.Key{Application: "shop", BusinessID: "b"}, Generation: 1, RingNo: 1,
		RungAt: 1_700_000_001_456, ClaimID: "c1", ContentType: "application/octet-stream",
	}
	all(t, laneOf(t, s).Deliver(t.Context(), []clock.Ring{full, bare}, usual()), clock.Confirmed)

	got := b.take(queue, 2)
	check(t, got[0], amqp.Delivery{
		Headers: amqp.Table{
			"x-application": "shop", "x-business-id": "order/1 % ü", "x-target-ring-at": int64(1_700_000_000_999),
			"x-rung-at": int64(1_700_000_001_456), "x-generation": int64(3), "x-ring-no": int32(2),
			"x-retry-times": int32(5), "x-claim-id": "c1", "traceparent": "00-aa-bb-01",
		},
		MessageId: "4711.3.2", CorrelationId: "order/1 % ü", Type: "alarm.ring", AppId: "clockd",
		ContentType: "text/plain; charset=utf-8", DeliveryMode: 2, Priority: 7, Timestamp: time.Unix(1_700_000_000, 0),
		ReplyTo: b.exchange + ".answers", Exchange: b.exchange, RoutingKey: "shop", Body: []byte("hello"),
	})
	check(t, got[1], amqp.Delivery{
		Headers: amqp.Table{
			"x-application": "shop", "x-business-id": "b", "x-target-ring-at": int64(0),
			"x-rung-at": int64(1_700_000_001_456), "x-generation": int64(1), "x-ring-no": int32(1),
			"x-retry-times": int32(0), "x-claim-id": "c1",
		},
		MessageId: "4712.1.1", CorrelationId: "b", Type: "alarm.ring", AppId: "clockd",
		ContentType: "application/octet-stream", DeliveryMode: 2, Timestamp: time.Unix(0, 0),
		Exchange: b.exchange, RoutingKey: "shop", Body: []byte{},
	})
}

func check(t *testing.T, got, want amqp.Delivery) {
	t.Helper()
	got.Acknowledger, got.DeliveryTag, got.MessageCount = nil, 0, 0
	if !got.Timestamp.Equal(want.Timestamp) {
		t.Errorf("timestamp %v, want %v", got.Timestamp, want.Timestamp)
	}
	got.Timestamp, want.Timestamp = time.Time{}, time.Time{}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("message\n%+v, want\n%+v", got, want)
	}
}

// A priority queue hands over what came last first, when its priority is higher.
func TestPriorityOrdersAPriorityQueue(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	queue := b.queue("shop", amqp.Table{"x-max-priority": 9})
	batch := rings("shop", 40)
	for i := range batch {
		batch[i].Priority = i * 7 % 10
	}
	all(t, laneOf(t, s).Deliver(t.Context(), batch, usual()), clock.Confirmed)
	for i, d := range b.take(queue, 40) {
		if want := 9 - i/4; int(d.Priority) != want {
			t.Errorf("message %d has priority %d, want %d", i, d.Priority, want)
		}
	}
}

// An answer to reply_to is found by clockd, whatever the application copies from the ring into it.
func TestReplyToLeadsToTheAnswers(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	s := ready(t, b.config())
	queue := b.queue("shop", nil)
	batch := rings("shop", 2)
	batch[0].AckTimeout = time.Minute
	all(t, laneOf(t, s).Deliver(t.Context(), batch, usual()), clock.Confirmed)
	got := b.take(queue, 2)
	if got[1].ReplyTo != "" {
		t.Errorf("a ring without ack_timeout has reply_to %q", got[1].ReplyTo)
	}
	b.must(b.ch.Publish("", got[0].ReplyTo, true, false, amqp.Publishing{Type: "alarm.ack", CorrelationId: got[0].MessageId}))
	book := newBook()
	answersOf(t, b.config(), book, nil)
	eventually(t, 5*time.Second, "the answer", func() bool { return book.count() == 1 })
	if book.accepted[batch[0].AlarmID] != 1 {
		t.Errorf("accepted %v", book.accepted)
	}
}

// The buffer is reused, so what rings of one batch differ in must not stick.
func TestHeadersDoNotLeakFromRingToRing(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	shop, bank := b.queue("shop", nil), b.queue("bank", nil)
	batch := append(rings("shop", 1), append(rings("bank", 1), rings("shop", 1)...)...)
	batch[0].Traceparent, batch[1].ClaimID, batch[1].RungAt = "tp", "other", 7
	all(t, laneOf(t, s).Deliver(t.Context(), batch, usual()), clock.Confirmed)
	for i, d := range append(b.take(shop, 2)[:2], b.take(bank, 1)...) {
		r := batch[[]int{0, 2, 1}[i]]
		want := []any{r.Application, r.ClaimID, int64(r.RungAt), r.BusinessID}
		got := []any{d.Headers["x-application"], d.Headers["x-claim-id"], d.Headers["x-rung-at"], d.Headers["x-business-id"]}
		if !reflect.DeepEqual(got, want) || (d.Headers["traceparent"] != nil) != (r.Traceparent != "") {
			t.Errorf("headers %v of ring %+v", d.Headers, r)
		}
	}
}

func TestUnroutableIsReturned(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	got := laneOf(t, s).Deliver(t.Context(), rings("nobody", 1), usual())
	want := clock.Outcome{Kind: clock.Returned, Reason: fmt.Sprintf(
		`312 NO_ROUTE: no queue is bound to exchange %q with routing key "nobody"`, b.exchange)}
	if got[0] != want {
		t.Fatalf("got %+v, want %+v", got[0], want)
	}
}

func TestMixedBatchHasExactOutcomes(t *testing.T) {
	for _, size := range []int{1000, 2 * minReturns} {
		b := shared(t)
		s := ready(t, b.config())
		queue := b.queue("shop", quorum)
		l := laneOf(t, s)
		all(t, l.Deliver(t.Context(), rings("shop", 3), usual()), clock.Confirmed) // on the smaller channel
		b.take(queue, 3)

		batch := rings("shop", size)
		for i := range batch {
			if i%2 == 1 {
				batch[i].Application = "nobody"
			}
		}
		outcomes := l.Deliver(t.Context(), batch, within(5*time.Second, 10*time.Second))
		for i, o := range outcomes {
			if want := []clock.OutcomeKind{clock.Confirmed, clock.Returned}[i%2]; o.Kind != want {
				t.Fatalf("outcome %d of %d is %+v, want %s", i, size, o, want)
			}
		}
		got := map[string]bool{}
		for _, d := range b.take(queue, size/2) {
			got[d.MessageId] = true
		}
		for i := 0; i < size; i += 2 {
			if !got[batch[i].MessageID()] {
				t.Fatalf("ring %d is confirmed but was not delivered", i)
			}
		}
		b.empty(queue)
	}
}

func TestFullQueueNacks(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	b.queue("shop", amqp.Table{"x-max-length": 2, "x-overflow": "reject-publish"})
	l := laneOf(t, s)
	n := 0
	for range 5 {
		for _, o := range l.Deliver(t.Context(), rings("shop", 1), usual()) {
			if o.Kind == clock.Nacked {
				n++
				if o.Reason != nackReason {
					t.Errorf("reason %q", o.Reason)
				}
			}
		}
	}
	if n != 3 {
		t.Fatalf("%d of 5 were nacked by a queue of 2, want 3", n)
	}
	if s.Usable() != nil {
		t.Errorf("a full queue made the target unusable: %v", s.Usable())
	}
}

func TestPastWriteLimitSendsNothing(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	queue := b.queue("shop", nil)
	l := laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed) // connects
	b.take(queue, 1)
	all(t, l.Deliver(t.Context(), rings("shop", 50), within(-time.Millisecond, time.Second)), clock.Unsent)
	b.empty(queue)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	if got := b.take(queue, 1); len(got) != 1 {
		t.Fatal(got)
	}
	b.empty(queue)
}

// The limit passes after the rings were gathered and before they are written: as when the process is stopped in between.
func TestLimitPassesBetweenGatherAndWrite(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	queue := b.queue("shop", nil)
	l := laneOf(t, s)
	if err := l.ready(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	batch := rings("shop", 10)
	l.rings, l.batch = batch, make([]try, len(batch))
	limit := time.Now().Add(50 * time.Millisecond)
	l.link.wire.begin(limit)
	l.hand()
	<-time.After(time.Until(limit))
	if _, err := l.link.wire.end(); err == nil {
		t.Fatal("a write after the limit succeeded")
	}
	answer, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	l.await(answer)
	l.settle(t.Context(), answer)
	for i := range l.batch {
		if l.batch[i].outcome.Kind != clock.Unsent {
			t.Fatalf("outcome %+v, want unsent", l.batch[i].outcome)
		}
	}
	b.empty(queue)
}

func TestGatheringNeedsFewWrites(t *testing.T) {
	b := shared(t)
	for gather, most := range map[int]int{128 << 10: 3, 0: 10000} {
		cfg := b.config()
		cfg.GatherBytes = gather
		s := ready(t, cfg)
		queue := b.queue("shop", nil)
		batch := rings("shop", 300)
		for i := range batch {
			batch[i].Payload = []byte(strings.Repeat("x", 200))
		}
		all(t, laneOf(t, s).Deliver(t.Context(), batch, usual()), clock.Confirmed)
		writes := int(testutil.ToFloat64(s.metrics.writes))
		if writes > most || writes < 1 || (gather == 0 && writes < 300) {
			t.Errorf("%d writes for 300 rings with a buffer of %d", writes, gather)
		}
		b.remove(queue)
		_, err := b.ch.QueueDeclare(queue, true, false, false, false, nil) // for the cleanup
		b.must(err)
	}
}

// Bodies larger than the gather buffer, the library's buffer and a frame.
func TestLargePayloadsArriveWhole(t *testing.T) {
	b := shared(t)
	cfg := b.config()
	cfg.GatherBytes = 16 << 10
	s := ready(t, cfg)
	queue := b.queue("shop", nil)
	batch := rings("shop", 20)
	for i := range batch {
		batch[i].Payload = []byte(strings.Repeat(string(rune('a'+i)), i*20_000))
	}
	all(t, laneOf(t, s).Deliver(t.Context(), batch, usual()), clock.Confirmed)
	for i, d := range b.take(queue, 20) {
		if !bytes.Equal(d.Body, batch[i].Payload) {
			t.Errorf("payload %d has %d bytes, want %d", i, len(d.Body), len(batch[i].Payload))
		}
	}
}

func TestUnencodableRingIsRefusedAlone(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	b.queue("shop", nil)
	batch := rings("shop", 3)
	batch[1].ContentType = strings.Repeat("x", 256)
	outcomes := laneOf(t, s).Deliver(t.Context(), batch, usual())
	want := map[clock.OutcomeKind]int{clock.Confirmed: 2, clock.Refused: 1}
	if got := count(outcomes); !maps.Equal(got, want) || outcomes[1].Reason != "content_type has 256 bytes, AMQP allows 255" {
		t.Fatalf("got %+v", outcomes)
	}
}

func TestMissingExchangeIsDeclaredAgain(t *testing.T) {
	b := shared(t)
	cfg := b.config()
	cfg.ProbeInterval = time.Hour // the lane has to notice
	s := ready(t, cfg)
	queue := b.queue("shop", nil)
	l := laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	b.must(b.ch.ExchangeDelete(b.exchange, false, false))
	drain(s.Changed())

	outcomes := l.Deliver(t.Context(), rings("shop", 20), usual())
	all(t, outcomes, clock.Doubtful)
	if !strings.HasPrefix(outcomes[0].Reason, "404 NOT_FOUND") {
		t.Errorf("reason %q", outcomes[0].Reason)
	}
	select {
	case <-s.Changed():
	case <-time.After(time.Second):
		t.Fatal("the target stayed usable")
	}
	usable(t, s, 5*time.Second)
	b.must(b.ch.QueueBind(queue, "shop", b.exchange, false, nil))
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
}

func TestDeliverEndsWithItsContext(t *testing.T) {
	b := shared(t)
	p, via := through(t, b.url)
	b.url = via
	cfg := b.config()
	cfg.ProbeTimeout = time.Minute
	s := ready(t, cfg)
	b.queue("shop", nil)
	l := laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	p.stall(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	all(t, l.Deliver(ctx, rings("shop", 5), within(5*time.Second, 10*time.Second)), clock.Doubtful)
	if took := time.Since(began); took > time.Second {
		t.Errorf("took %s", took)
	}
	all(t, l.Deliver(ctx, rings("shop", 5), usual()), clock.Unsent)
	p.stall(false)
	b.url = sharedURL
}

func TestEmptyDelivery(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	if got := laneOf(t, s).Deliver(t.Context(), nil, usual()); len(got) != 0 {
		t.Fatal(got)
	}
}

func TestOpenedLaneDeliversOverItsChannel(t *testing.T) {
	b := shared(t)
	s := ready(t, b.config())
	b.queue("shop", nil)
	l := laneOf(t, s)
	l.Open(t.Context())
	opened := l.ch
	if opened == nil {
		t.Fatal("no channel was opened")
	}
	l.Open(t.Context())
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	if l.ch != opened {
		t.Error("another channel was opened")
	}
	l.link.kill()
	<-l.link.done
	l.Open(t.Context())
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
}

func TestUnusableSessionSendsNothing(t *testing.T) {
	s, err := New(func() Config { c := DefaultConfig(); c.URL = sharedURL; return c }(), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := laneOf(t, s).Deliver(t.Context(), rings("shop", 2), usual())
	all(t, outcomes, clock.Unsent)
	if outcomes[0].Reason != "not connected yet" {
		t.Errorf("reason %q", outcomes[0].Reason)
	}
}

func TestDeliverOverTLS(t *testing.T) {
	b := shared(t)
	cfg := b.config()
	_, cfg.URL = throughTLS(t, b.url)
	s := ready(t, cfg)
	queue := b.queue("shop", nil)
	batch := append(rings("shop", 300), rings("nobody", 3)...)
	outcomes := laneOf(t, s).Deliver(t.Context(), batch, usual())
	all(t, outcomes[:300], clock.Confirmed)
	all(t, outcomes[300:], clock.Returned)
	b.take(queue, 300)
	if writes := testutil.ToFloat64(s.metrics.writes); writes > 3 {
		t.Errorf("%v writes", writes)
	}
	cfg.URL, _, _ = strings.Cut(cfg.URL, "?") // without the certificate
	if s, err := New(cfg, Deps{}); err != nil {
		t.Error(err)
	} else if err := firstTrouble(t, s); !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
}
