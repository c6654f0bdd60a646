package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"

	"github.com/clockd/clockd/ring"
)

func TestMessageHasExactlyThePromisedProperties(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", nil)
	full := clock.Ring{
		AlarmID: 4711, Key: clock.Key{Application: "shop", BusinessID: "order/1 % ü"},
		Generation: 3, RingNo: 2, Before: clock.RingRow{RetryTimes: 5, Progress: clock.Progress{
			Current:    repeat.Occurrence{Number: 5, At: 1_700_000_000_900},
			PreviousAt: 1_699_900_000_000, Next: repeat.Occurrence{Number: 6, At: 1_700_100_000_000},
		}}, RingAt: 1_700_000_000_999,
		RungAt:  1_700_000_001_456,
		ClaimID: "c1", Payload: []byte("hello"), ContentType: "text/plain; charset=utf-8",
		AckTimeout: time.Minute, Priority: 7, Traceparent: "00-aa-bb-01",
	}
	bare := clock.Ring{
		AlarmID: 4712, Key: clock.Key{Application: "shop", BusinessID: "b"}, Generation: 1, RingNo: 1,
		RungAt: 1_700_000_001_456, ClaimID: "c1", ContentType: "application/octet-stream",
	}
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), []clock.Ring{full, bare}, ampleLimits()), clock.Confirmed)

	got := b.Take(queue, 2)
	compareDelivery(t, got[0], amqp.Delivery{
		Headers: amqp.Table{
			"x-application": "shop", "x-business-id": "order/1 % ü", "x-target-ring-at": int64(1_700_000_000_999),
			"x-rung-at": int64(1_700_000_001_456), "x-generation": int64(3), "x-ring-no": int32(2),
			"x-retry-times": int32(5), "x-claim-id": "c1", "traceparent": "00-aa-bb-01",
			"x-occurrence": int64(5), "x-occurrence-at": int64(1_700_000_000_900),
			"x-occurrence-previous-at": int64(1_699_900_000_000), "x-occurrence-next-at": int64(1_700_100_000_000),
		},
		MessageId: "4711.3.2", CorrelationId: "order/1 % ü", Type: "alarm.ring", AppId: "clockd",
		ContentType: "text/plain; charset=utf-8", DeliveryMode: 2, Priority: 7, Timestamp: time.Unix(1_700_000_000, 0),
		ReplyTo: b.Exchange + ".answers", Exchange: b.Exchange, RoutingKey: "shop", Body: []byte("hello"),
	})
	compareDelivery(t, got[1], amqp.Delivery{
		Headers: amqp.Table{
			"x-application": "shop", "x-business-id": "b", "x-target-ring-at": int64(0),
			"x-rung-at": int64(1_700_000_001_456), "x-generation": int64(1), "x-ring-no": int32(1),
			"x-retry-times": int32(0), "x-claim-id": "c1",
		},
		MessageId: "4712.1.1", CorrelationId: "b", Type: "alarm.ring", AppId: "clockd",
		ContentType: "application/octet-stream", DeliveryMode: 2, Timestamp: time.Unix(0, 0),
		Exchange: b.Exchange, RoutingKey: "shop", Body: []byte{},
	})
}

func compareDelivery(t *testing.T, got, want amqp.Delivery) {
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

// A priority queue delivers messages with a higher priority first, whatever their order of arrival.
func TestPriorityOrdersAPriorityQueue(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", amqp.Table{"x-max-priority": 9})
	batch := rings("shop", 40)
	for i := range batch {
		batch[i].Priority = i * 7 % 10
	}
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits()), clock.Confirmed)
	for i, d := range b.Take(queue, 40) {
		if want := 9 - i/4; int(d.Priority) != want {
			t.Errorf("message %d has priority %d, want %d", i, d.Priority, want)
		}
	}
}

// answersTaken is an inbox.Answerer that accepts all answers, and passes them on.
type answersTaken chan clock.Answer

func (taken answersTaken) Answer(_ context.Context, answers []clock.Answer, done func(int, error)) {
	for i, a := range answers {
		taken <- a
		done(i, nil)
	}
}

// clockd takes an answer that an application sends to the reply_to of its ring.
func TestAnswerToReplyToIsTaken(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", nil)
	batch := rings("shop", 2)
	batch[0].AckTimeout = time.Minute
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits()), clock.Confirmed)
	got := b.Take(queue, 2)
	if got[1].ReplyTo != "" {
		t.Errorf("a ring without ack_timeout has reply_to %q", got[1].ReplyTo)
	}
	b.Must(b.Ch.Publish("", got[0].ReplyTo, true, false,
		amqp.Publishing{Type: "alarm.ack", CorrelationId: got[0].MessageId}))
	taken := make(answersTaken, 1)
	t.Cleanup(rabbittest.Background(t, s.Answers(taken).Run))
	if a := rabbittest.ReceiveSoon(t, taken); a.Kind != clock.Ack || a.Ring.String() != batch[0].MessageID() {
		t.Errorf("the answer is %+v", a)
	}
}

// The encoder reuses its buffer, so a header of one ring must not appear in the next.
func TestHeadersOfOneRingDoNotReachTheNext(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	shop, bank := b.Queue("shop", nil), b.Queue("bank", nil)
	batch := append(rings("shop", 1), append(rings("bank", 1), rings("shop", 1)...)...)
	batch[0].Traceparent, batch[1].ClaimID, batch[1].RungAt = "tp", "other", 7
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits()), clock.Confirmed)
	for i, d := range append(b.Take(shop, 2)[:2], b.Take(bank, 1)...) {
		r := batch[[]int{0, 2, 1}[i]]
		want := []any{r.Application, r.ClaimID, int64(r.RungAt), r.BusinessID}
		got := []any{d.Headers["x-application"], d.Headers["x-claim-id"], d.Headers["x-rung-at"],
			d.Headers["x-business-id"]}
		if !reflect.DeepEqual(got, want) || (d.Headers["traceparent"] != nil) != (r.Traceparent != "") {
			t.Errorf("headers %v of ring %+v", d.Headers, r)
		}
	}
}

func TestUnroutableIsReturned(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	got := openAndDeliver(t.Context(), laneOf(t, s), rings("nobody", 1), ampleLimits())
	want := clock.Outcome{Kind: clock.Returned, Reason: fmt.Sprintf(
		`312 NO_ROUTE: no queue is bound to exchange %q with routing key "nobody"`, b.Exchange)}
	if got[0] != want {
		t.Fatalf("got %+v, want %+v", got[0], want)
	}
}

func TestMixedBatchHasExactOutcomes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1000, 2 * minReturns} {
		b := rabbittest.Shared(t)
		s := startUsable(t, configOf(b))
		queue := b.Queue("shop", rabbittest.Quorum)
		l := laneOf(t, s)
		wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 3), ampleLimits()), clock.Confirmed) // on the smaller channel
		b.Take(queue, 3)

		batch := rings("shop", size)
		for i := range batch {
			if i%2 == 1 {
				batch[i].Application = "nobody"
			}
		}
		outcomes := openAndDeliver(t.Context(), l, batch, ampleLimits())
		for i, o := range outcomes {
			if want := []clock.OutcomeKind{clock.Confirmed, clock.Returned}[i%2]; o.Kind != want {
				t.Fatalf("outcome %d of %d is %+v, want %s", i, size, o, want)
			}
		}
		got := map[string]bool{}
		for _, d := range b.Take(queue, size/2) {
			got[d.MessageId] = true
		}
		for i := 0; i < size; i += 2 {
			if !got[batch[i].MessageID()] {
				t.Fatalf("ring %d is confirmed but was not delivered", i)
			}
		}
		b.Empty(queue)
	}
}

func TestFullQueueNacks(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	b.Queue("shop", amqp.Table{"x-max-length": 2, "x-overflow": "reject-publish"})
	l := laneOf(t, s)
	n := 0
	for range 5 {
		for _, o := range openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()) {
			if o.Kind == clock.Nacked {
				n++
				if o.Reason != nackReason {
					t.Errorf("reason %q", o.Reason)
				}
			}
		}
	}
	if n != 3 {
		t.Fatalf("a queue of 2 messages nacked %d of 5 rings, want 3", n)
	}
	if s.Usable() != nil {
		t.Errorf("a full queue made the target unusable: %v", s.Usable())
	}
}

// After a nack the next delivery uses a new channel on the same connection: the lane's own one, and a side channel.
func TestNackedChannelIsReplaced(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	b.Queue("well", nil)
	b.Queue("full", amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
	l := laneOf(t, s)
	limits := ampleLimits()
	limits.OnConfirmed = func(int) {} // a channel for each application
	deliver := func(batch []clock.Ring, want ...clock.OutcomeKind) (own, side *channel) {
		t.Helper()
		for i, o := range openAndDeliver(t.Context(), l, batch, limits) {
			if o.Kind != want[i] {
				t.Fatalf("ring %d is %s (%s), want %s", i, o.Kind, o.Reason, want[i])
			}
		}
		return l.ch, l.sides[0]
	}
	wellFirst, fullFirst := append(rings("well", 1), rings("full", 1)...), append(rings("full", 1), rings("well", 1)...)
	own, side := deliver(wellFirst, clock.Confirmed, clock.Nacked)
	link := l.link
	own2, side2 := deliver(fullFirst, clock.Nacked, clock.Confirmed)
	if own2 != own || side2 == side || !side.IsClosed() {
		t.Errorf("own channel kept: %t, side channel replaced: %t", own2 == own, side2 != side)
	}
	own3, side3 := deliver(wellFirst, clock.Confirmed, clock.Nacked)
	if own3 == own2 || side3 != side2 || !own2.IsClosed() {
		t.Errorf("own channel replaced: %t, side channel kept: %t", own3 != own2, side3 == side2)
	}
	if l.link != link {
		t.Error("the lane gave up its connection because of a nack")
	}
}

func TestDeliverAfterTheWriteLimitSendsNothing(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", nil)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed) // connects
	b.Take(queue, 1)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 50), within(-time.Millisecond, time.Second)), clock.Unsent)
	b.Empty(queue)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	if got := b.Take(queue, 1); len(got) != 1 {
		t.Fatal(got)
	}
	b.Empty(queue)
}

// The limit passes after the rings were gathered and before they are written. That happens if the process is stopped in
// between.
func TestGatheredRingsAreUnsentWhenTheLimitPasses(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", nil)
	l := laneOf(t, s)
	if err := l.Open(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	batch := rings("shop", 10)
	l.current.begin(l.link, l.found, batch)
	limit := time.Now().Add(50 * time.Millisecond)
	l.link.BeginDelivery(ring.Limits{WriteBy: limit})
	if err := l.assignChannels(false, time.Now()); err != nil {
		t.Fatal(err)
	}
	l.publishRings()
	<-time.After(time.Until(limit))
	if _, err := l.link.EndDelivery(); err == nil {
		t.Fatal("a write after the limit succeeded")
	}
	replyCtx, cancel := context.WithTimeout(t.Context(), rabbittest.HangGuard)
	defer cancel()
	l.awaitConfirms(replyCtx, nil)
	l.resolve(t.Context(), replyCtx, false)
	for i := range l.current.states {
		if l.current.states[i].outcome.Kind != clock.Unsent {
			t.Fatalf("outcome %+v, want unsent", l.current.states[i].outcome)
		}
	}
	b.Empty(queue)
}

func TestGatheringTakesFewWrites(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	for gather, most := range map[int]int{128 << 10: 3, 0: 10000} {
		cfg := configOf(b)
		cfg.GatherBytes = gather
		s := startUsable(t, cfg)
		queue := b.Queue("shop", nil)
		batch := rings("shop", 300)
		for i := range batch {
			batch[i].Payload = []byte(strings.Repeat("x", 200))
		}
		wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits()), clock.Confirmed)
		writes := int(testutil.ToFloat64(s.metrics.writes))
		if writes > most || writes < 1 || (gather == 0 && writes < 300) {
			t.Errorf("%d writes for 300 rings with a buffer of %d", writes, gather)
		}
		b.Remove(queue)
		_, err := b.Ch.QueueDeclare(queue, true, false, false, false, nil) // for the cleanup
		b.Must(err)
	}
}

// The bodies are larger than the gather buffer, the library's buffer and a frame.
func TestLargePayloadsArriveWhole(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := configOf(b)
	cfg.GatherBytes = 16 << 10
	s := startUsable(t, cfg)
	queue := b.Queue("shop", nil)
	batch := rings("shop", 20)
	for i := range batch {
		batch[i].Payload = []byte(strings.Repeat(string(rune('a'+i)), i*20_000))
	}
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits()), clock.Confirmed)
	for i, d := range b.Take(queue, 20) {
		if !bytes.Equal(d.Body, batch[i].Payload) {
			t.Errorf("payload %d has %d bytes, want %d", i, len(d.Body), len(batch[i].Payload))
		}
	}
}

func TestRingThatCannotBeEncodedIsRefusedAlone(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	b.Queue("shop", nil)
	batch := rings("shop", 3)
	batch[1].ContentType = strings.Repeat("x", 256)
	outcomes := openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits())
	want := map[clock.OutcomeKind]int{clock.Confirmed: 2, clock.Refused: 1}
	if got := count(outcomes); !maps.Equal(got, want) ||
		outcomes[1].Reason != "content_type has 256 bytes, AMQP allows 255" {
		t.Fatalf("got %+v", outcomes)
	}
}

func TestMissingExchangeIsDeclaredAgain(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := configOf(b)
	cfg.ProbeInterval = time.Hour // so that the lane notices, not a probe
	s := startUsable(t, cfg)
	queue := b.Queue("shop", nil)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	b.Must(b.Ch.ExchangeDelete(b.Exchange, false, false))
	wire.Drain(s.Changed())

	outcomes := openAndDeliver(t.Context(), l, rings("shop", 20), ampleLimits())
	wantAll(t, outcomes, clock.Doubtful)
	if !strings.HasPrefix(outcomes[0].Reason, "404 NOT_FOUND") {
		t.Errorf("reason %q", outcomes[0].Reason)
	}
	select {
	case <-s.Changed():
	case <-time.After(rabbittest.HangGuard):
		t.Fatal("the target stayed usable")
	}
	waitUsable(t, s, 5*time.Second)
	b.Must(b.Ch.QueueBind(queue, "shop", b.Exchange, false, nil))
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
}

func TestCancelledDeliveryIsInDoubt(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	b.Queue("shop", nil)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	p.Stall(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	link := l.link
	before := link.Sent()
	delivered := make(chan []clock.Outcome, 1)
	limits := within(2*rabbittest.HangGuard, 3*rabbittest.HangGuard)
	limits.Await = func(ring.LateRings) { t.Error("rings are awaited after the caller has left") }
	go func() { delivered <- l.Deliver(ctx, rings("shop", 5), limits) }()
	rabbittest.Eventually(t, rabbittest.HangGuard, "the rings are written", func() bool { return link.Sent() > before })
	cancel()
	wantAll(t, <-delivered, clock.Doubtful)
	wantAll(t, openAndDeliver(ctx, l, rings("shop", 5), ampleLimits()), clock.Unsent)
	p.Stall(false)
	b.URL = rabbittest.SharedURL
}

func TestDeliverOfNoRingsHasNoOutcomes(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	if got := openAndDeliver(t.Context(), laneOf(t, s), nil, ampleLimits()); len(got) != 0 {
		t.Fatal(got)
	}
}

func TestOpenedLaneDeliversOverItsChannel(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	b.Queue("shop", nil)
	l := laneOf(t, s)
	broken := func(want bool) {
		t.Helper()
		select {
		case <-l.Broken():
			if !want {
				t.Error("Broken reports an open lane as broken")
			}
		default:
			if want {
				t.Error("Broken reports a broken lane as open")
			}
		}
	}
	broken(true)
	b.Must(l.Open(t.Context(), 300))
	broken(false)
	opened := l.ch
	b.Must(l.Open(t.Context(), 300))
	wantAll(t, l.Deliver(t.Context(), rings("shop", 1), ampleLimits()), clock.Confirmed)
	if l.ch != opened {
		t.Error("another channel was opened")
	}
	ended := l.Broken()
	l.link.Kill()
	<-ended
	broken(true)
	b.Must(l.Open(t.Context(), 2*minReturns))
	broken(false)
	wantAll(t, l.Deliver(t.Context(), rings("shop", 2*minReturns), within(20*time.Second, 30*time.Second)),
		clock.Confirmed)
}

// Deliver opens no connection and no lane channel, because Open does that before the claim.
func TestDeliveryOpensNoLane(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	b.Queue("shop", nil)
	l := laneOf(t, s)
	wantAll(t, l.Deliver(t.Context(), rings("shop", 3), ampleLimits()), clock.Unsent)
	b.Must(l.Open(t.Context(), 3))
	wantAll(t, l.Deliver(t.Context(), rings("shop", minReturns+1), ampleLimits()), clock.Unsent)
	wantAll(t, l.Deliver(t.Context(), rings("shop", 3), ampleLimits()), clock.Confirmed)
	l.link.Kill()
	<-l.Broken()
	wantAll(t, l.Deliver(t.Context(), rings("shop", 3), ampleLimits()), clock.Unsent)
	if dials := testutil.ToFloat64(s.metrics.dials.WithLabelValues(roleLane, s.broker.Hosts[0].Name())); dials != 1 {
		t.Errorf("%v connections were dialled, want 1", dials)
	}
}

// Opening a lane may take longer than the time to write a ring. With a silent broker it ends after DialTimeout.
func TestLaneOpensWithinItsOwnTimeout(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	l := laneOf(t, s)
	p.Stall(true)
	s.cfg.DialTimeout = 300 * time.Millisecond
	if err := l.Open(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a silent broker: %v", err)
	}
	p.Stall(false)
	s.cfg.DialTimeout = 30 * time.Second
	b.Must(l.Open(t.Context(), 1))
}

func TestUnusableSessionSendsNothing(t *testing.T) {
	t.Parallel()
	s, err := New(func() Config { c := DefaultConfig(); c.URL = rabbittest.SharedURL; return c }(), Deps{})
	if err != nil {
		t.Fatal(err)
	}
	outcomes := openAndDeliver(t.Context(), laneOf(t, s), rings("shop", 2), ampleLimits())
	wantAll(t, outcomes, clock.Unsent)
	if outcomes[0].Reason != "not connected yet" {
		t.Errorf("reason %q", outcomes[0].Reason)
	}
}

func TestDeliverOverTLSNeedsAKnownCertificate(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := configOf(b)
	_, cfg.URL = rabbittest.ProxyToTLS(t, b.URL)
	s := startUsable(t, cfg)
	queue := b.Queue("shop", nil)
	batch := append(rings("shop", 300), rings("nobody", 3)...)
	outcomes := openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits())
	wantAll(t, outcomes[:300], clock.Confirmed)
	wantAll(t, outcomes[300:], clock.Returned)
	b.Take(queue, 300)
	if writes := testutil.ToFloat64(s.metrics.writes); writes > 3 {
		t.Errorf("%v writes", writes)
	}
	cfg.URL, _, _ = strings.Cut(cfg.URL, "?") // without the certificate authority
	if s, err := New(cfg, Deps{}); err != nil {
		t.Error(err)
	} else if err := firstConnectError(t, s); !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %v", err)
	}
}

// The machine is suspended between the claim and the delivery. The monotonic clock does not count that time.
func TestDeliverAfterASuspendSendsNothing(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", nil)
	l := laneOf(t, s)
	if err := l.Open(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	limits := ampleLimits()
	limits.Suspended = func() time.Duration { return time.Hour }
	wantAll(t, l.Deliver(t.Context(), rings("shop", 3), limits), clock.Unsent)
	b.Empty(queue)
}

// A fresh lane over a slow network delivers rings of 300 applications, each with its own channel. Opening all channels
// would take longer than the time to write.
func TestManyQuarantinedApplicationsAreDeliveredInTime(t *testing.T) {
	t.Parallel()
	_, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	l := laneOf(t, s)
	if err := l.Open(t.Context(), 300); err != nil {
		t.Fatal(err)
	}
	p.Lag(20 * time.Millisecond)
	var batch []clock.Ring
	for i := range 300 {
		batch = append(batch, rings(fmt.Sprintf("nobody-%d", i), 1)...)
	}
	limits := within(5*time.Second, time.Minute) // 300 channels take 12 s
	limits.OnConfirmed = func(int) {}
	wantAll(t, l.Deliver(t.Context(), batch, limits), clock.Returned)
}
