package rabbit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// memorySetter is a Setter that keeps the alarms in memory, and decides like package clock.
type memorySetter struct {
	mu     sync.Mutex
	alarms map[clock.Key]*clock.Set
	sets   int               // number of submitted sets
	err    func(n int) error // outcome of the nth set, which then has no effect; nil: all have theirs
}

func newMemorySetter() *memorySetter { return &memorySetter{alarms: map[clock.Key]*clock.Set{}} }

func (m *memorySetter) Set(_ context.Context, sets []*clock.Set, done func(i int, err error)) {
	for i, s := range sets {
		done(i, m.set(s))
	}
}

func (m *memorySetter) set(s *clock.Set) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sets++
	if m.err != nil {
		if err := m.err(m.sets); err != nil {
			return err
		}
	}
	if err := s.Validate(clock.DefaultMaxPayload); err != nil {
		return err
	}
	if old := m.alarms[s.Key]; old != nil {
		alarm := &clock.Alarm{Key: s.Key, Content: old.Content}
		return &clock.Error{Kind: clock.ErrPrecondition, Code: clock.CodeConditionFailed, Alarm: alarm}
	}
	m.alarms[s.Key] = s
	return nil
}

func (m *memorySetter) setErr(err func(n int) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memorySetter) all() map[clock.Key]*clock.Set {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.alarms)
}

// intakeTest is a broker with a queue for delayed messages, an exchange for them, and a queue of dead letters.
type intakeTest struct {
	*broker
	source, sourceQueue, deadLetters, deadQueue string
	cfg                                         Config
}

func newIntakeTest(t *testing.T, args amqp.Table) *intakeTest {
	t.Helper()
	b := shared(t)
	b.must(b.ch.ExchangeDeclare(b.exchange, "direct", true, false, false, false, nil)) // for the cleanup
	i := &intakeTest{broker: b, source: unique("source"), sourceQueue: unique("delayed"), cfg: b.config()}
	b.must(b.ch.ExchangeDeclare(i.source, "topic", true, false, false, false, nil))
	t.Cleanup(func() { b.channel(); _ = b.ch.ExchangeDelete(i.source, false, false) })
	_, err := b.ch.QueueDeclare(i.sourceQueue, true, false, false, false, args)
	b.must(err)
	t.Cleanup(func() { b.remove(i.sourceQueue) })
	b.must(b.ch.QueueBind(i.sourceQueue, "#", i.source, false, nil))
	i.deadLetters, i.deadQueue = b.otherExchange("#")
	i.cfg.Intake.Queue, i.cfg.Intake.Exchange, i.cfg.Intake.DeadLetters = i.sourceQueue, i.source, i.deadLetters
	return i
}

// run starts the intake, and returns it with a function that stops it.
func (i *intakeTest) run(setter Setter) (in *Intake, stop func()) {
	i.tb.Helper()
	s, err := New(i.cfg, Deps{Log: slog.New(slog.NewTextHandler(i.tb.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))})
	i.must(err)
	in = s.Intake(setter)
	in.longest = 20 * time.Millisecond
	stop = background(i.tb, in.Run)
	i.tb.Cleanup(stop)
	return in, stop
}

func (i *intakeTest) publish(p amqp.Publishing) {
	i.tb.Helper()
	i.must(i.ch.Publish(i.source, "order.cancel", true, false, p))
}

// waiting returns the number of messages in the queue. Without a consumer none of them is unacked.
func (i *intakeTest) waiting() int {
	i.tb.Helper()
	q, err := i.ch.QueueDeclarePassive(i.sourceQueue, true, false, false, false, nil)
	i.must(err)
	return q.Messages
}

func (in *Intake) counted(result string) int {
	return int(testutil.ToFloat64(in.s.metrics.intake.WithLabelValues(result)))
}

func TestDelayedMessageBecomesAnAlarm(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	at := clock.Instant(2_000_000_000_123)
	i.publish(amqp.Publishing{
		MessageId: "m1", ContentType: "application/json", Priority: 7, UserId: "guest", Body: []byte(`{"order":1}`),
		Headers: amqp.Table{"x-delay": int32(3_600_000), "x-clockd-ring-at": int64(1), "mine": "kept"},
	})
	i.publish(amqp.Publishing{MessageId: "m2", Headers: amqp.Table{"x-ring-at": int64(at), "x-application": "shop", "x-business-id": "order-2"}})
	i.publish(amqp.Publishing{MessageId: strings.Repeat("m", 200), Headers: amqp.Table{"x-ring-at": at.String()}})
	i.publish(amqp.Publishing{MessageId: "at once"})
	i.publish(amqp.Publishing{MessageId: "past", Headers: amqp.Table{"x-delay": int64(-5)}})
	i.publish(amqp.Publishing{})
	i.publish(amqp.Publishing{})
	_, stop := i.run(setter)
	eventually(t, time.Minute, "seven alarms", func() bool { return len(setter.all()) == 7 })
	stop()
	if n := i.waiting(); n != 0 {
		t.Errorf("%d messages are not acked", n)
	}

	alarms := setter.all()
	first := alarms[clock.Key{Application: "intake", BusinessID: "m1"}]
	if first == nil || first.Delay.Span > time.Hour+time.Millisecond || first.Delay.Span < 59*time.Minute || first.Priority != 7 || first.ContentType != "application/json" {
		t.Fatalf("the first alarm is %+v", first)
	}
	m, err := clock.UnpackMessage(first.Payload)
	if err != nil || m.Exchange != i.source || m.RoutingKey != "order.cancel" || string(m.Body) != `{"order":1}` {
		t.Fatalf("the first alarm holds %+v, %v", m, err)
	}
	want, err := encodeProperties(&amqp.Delivery{
		MessageId: "m1", ContentType: "application/json", Priority: 7, Headers: amqp.Table{"x-delay": int32(-3_600_000), "mine": "kept"},
	})
	if err != nil || !bytes.Equal(m.Properties, want) {
		t.Errorf("properties %q, want %q", m.Properties, want)
	}
	if second := alarms[clock.Key{Application: "shop", BusinessID: "order-2"}]; second == nil || second.RingAt != at || second.Delay.Given {
		t.Errorf("the second alarm is %+v", second)
	}
	for _, id := range []string{"at once", "past"} {
		if s := alarms[clock.Key{Application: "intake", BusinessID: id}]; s == nil || !s.Delay.Given || s.Delay.Span != 0 {
			t.Errorf("alarm %q is %+v", id, s)
		}
	}
	hashed, random := 0, 0
	for key, s := range alarms {
		switch {
		case strings.HasPrefix(key.BusinessID, "sha256:") && s.RingAt == at:
			hashed++
		case strings.HasPrefix(key.BusinessID, "random:"):
			random++
		}
	}
	if hashed != 1 || random != 2 {
		t.Errorf("%d hashed and %d random ids", hashed, random)
	}
}

func TestMessageThatCannotBeAnAlarmIsADeadLetter(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	refused := map[string]amqp.Publishing{
		"two times":   {Headers: amqp.Table{"x-delay": int32(1), "x-ring-at": int64(1)}},
		"no number":   {Headers: amqp.Table{"x-delay": "soon"}},
		"no time":     {Headers: amqp.Table{"x-ring-at": "tomorrow"}},
		"before 1970": {Headers: amqp.Table{"x-ring-at": int64(-1)}},
		"far":         {Headers: amqp.Table{"x-ring-at": time.Unix(18446744073709552, 0)}}, // 384 ms, if its milliseconds overflow
		"too late":    {Headers: amqp.Table{"x-delay": int64(1) << 60}},
		"application": {Headers: amqp.Table{"x-application": "a b"}},
		"table":       {Headers: amqp.Table{"x-application": amqp.Table{}}},
		"bad id":      {Headers: amqp.Table{"x-business-id": " blank "}},
		"taken":       {Headers: amqp.Table{"x-business-id": "taken"}, Body: []byte("other")},
		"packed":      {Body: bytes.Repeat([]byte("b"), clock.DefaultMaxPayload)},
		"large":       {Body: bytes.Repeat([]byte("b"), 10*clock.DefaultMaxPayload)},
		"headers":     {Headers: amqp.Table{"long": strings.Repeat("h", 70_000)}},
		"full frame":  {Headers: amqp.Table{"long": strings.Repeat("h", 131_072-60)}}, // no byte is left in the frame for a header of ours
		"number":      {Headers: amqp.Table{"x-business-id": int32(4711)}},
		"deep":        {Headers: amqp.Table{"deep": nested(61)}},
		"wide":        {Headers: amqp.Table{"wide": slices.Repeat([]any{true}, 9000)}, Body: []byte("kept")},
		"many":        {Headers: numbered(8191)}, // with ours there would be too many for the library
	}
	codes := map[string]string{
		"two times": clock.CodeInvalidValue, "no number": clock.CodeInvalidValue, "no time": clock.CodeInvalidValue, "too late": clock.CodeInvalidValue,
		"before 1970": clock.CodeInvalidValue, "far": clock.CodeInvalidValue,
		"application": clock.CodeInvalidApplication, "table": clock.CodeInvalidApplication, "bad id": clock.CodeInvalidBusinessID, "taken": codeIDTaken,
		"packed": clock.CodePayloadTooLarge, "large": clock.CodePayloadTooLarge, "headers": clock.CodePayloadTooLarge,
		"number": clock.CodeInvalidBusinessID, "deep": clock.CodeInvalidValue, "wide": clock.CodeInvalidValue, "many": clock.CodeInvalidValue,
	}
	i.publish(amqp.Publishing{Headers: amqp.Table{"x-business-id": "taken"}, Body: []byte("one")})
	for name, p := range refused {
		p.MessageId = name
		i.publish(p)
	}
	i.publish(amqp.Publishing{MessageId: "good"})
	in, stop := i.run(setter)
	for _, d := range i.take(i.deadQueue, len(refused)) {
		want := refused[d.MessageId]
		if d.MessageId == "full frame" {
			if len(d.Headers) != 1 || !reflect.DeepEqual(d.Headers, want.Headers) {
				t.Errorf("the dead letter with a full frame has %d headers", len(d.Headers))
			}
			continue
		}
		if d.Headers[headerRefusalCode] != codes[d.MessageId] || d.Headers[headerRefusalDetail] == "" || d.Headers[headerRefusedBy] != i.sourceQueue {
			t.Errorf("dead letter %q has the headers %.300v", d.MessageId, d.Headers)
		}
		for _, ours := range []string{headerRefusalCode, headerRefusalDetail, headerRefusedBy, headerDeliveryTag} {
			delete(d.Headers, ours)
		}
		if want.Headers == nil {
			want.Headers = amqp.Table{}
		}
		if raw, unreadable := d.Headers[headerUnreadable].([]byte); unreadable && len(raw) > 0 {
			d.Headers = want.Headers
		}
		if d.RoutingKey != "order.cancel" || !bytes.Equal(d.Body, want.Body) || !reflect.DeepEqual(d.Headers, want.Headers) {
			t.Errorf("dead letter %q differs from the message: %.300v", d.MessageId, d.Headers)
		}
	}
	eventually(t, time.Minute, "the good messages are alarms", func() bool { return len(setter.all()) == 2 })
	stop()
	if n := i.waiting(); n != 0 || in.counted(resultDeadLetter) != len(refused) {
		t.Errorf("%d messages are not acked, %d dead letters counted", n, in.counted(resultDeadLetter))
	}
}

// Nothing is acked while the database is away, and nothing is lost.
func TestMessagesWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]amqp.Table{"classic": nil, "quorum, limit 2": limited(nil)} {
		t.Run(name, func(t *testing.T) {
			i, setter := newIntakeTest(t, args), newMemorySetter()
			setter.setErr(func(int) error { return away })
			const n = 100
			for k := range n {
				i.publish(amqp.Publishing{MessageId: fmt.Sprint(k), Headers: amqp.Table{"x-delay": int32(1000)}})
			}
			in, stop := i.run(setter)
			eventually(t, time.Minute, "each message was submitted many times", func() bool { return in.counted(resultHeld) > 10*n })
			if in.counted(resultSet) != 0 {
				t.Error("a message is an alarm without a database")
			}
			setter.setErr(nil)
			eventually(t, time.Minute, "all messages are alarms", func() bool { return len(setter.all()) == n })
			stop()
			if left := i.waiting(); left != 0 {
				t.Errorf("%d messages are not acked", left)
			}
			waited := 0 // a millisecond or longer; a message may also come when the database is back
			for _, s := range setter.all() {
				if s.Delay.Span <= time.Second {
					waited++
				}
			}
			if waited < n/2 {
				t.Errorf("the delays of %d of %d messages count from the receipt", waited, n)
			}
		})
	}
}

// A commit whose result is unknown is submitted again, and the alarm is recognised, also of a message without an id.
func TestUnconfirmedMessageIsOneAlarm(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	const n = 50
	for range n {
		i.publish(amqp.Publishing{Headers: amqp.Table{"x-delay": int32(1000)}})
	}
	lost := &lossySetter{memorySetter: setter}
	in, stop := i.run(lost)
	eventually(t, time.Minute, "all are acked", func() bool { return in.counted(resultSet)+in.counted(resultDuplicate) == n })
	stop()
	if len(setter.all()) != n || i.waiting() != 0 || in.counted(resultDuplicate) == 0 {
		t.Errorf("%d alarms of %d messages, %d not acked, %d duplicates", len(setter.all()), n, i.waiting(), in.counted(resultDuplicate))
	}
}

// lossySetter loses the outcome of each set that takes effect first.
type lossySetter struct{ *memorySetter }

func (l *lossySetter) Set(_ context.Context, sets []*clock.Set, done func(i int, err error)) {
	for i, s := range sets {
		err := l.set(s)
		if err == nil && i%2 == 0 {
			err = clock.Unconfirmed(context.DeadlineExceeded)
		}
		done(i, err)
	}
}

func TestDelayIsNeverShortened(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct{ delay, passed, want time.Duration }{
		{500 * ms, 0, 501 * ms}, {500 * ms, 1, 501 * ms}, {500 * ms, ms, 500 * ms}, {500 * ms, ms + 1, 500 * ms}, {ms, ms, 0}, {0, 0, 0}, {-ms, 0, 0},
	} {
		if got := remaining(c.delay, c.passed); got != c.want {
			t.Errorf("%s of %s are left after %s, want %s", got, c.delay, c.passed, c.want)
		}
	}
}

// A message that is delivered again, because its ack was lost, is the same alarm.
func TestCutIntakeDoublesNoMessageWithAnID(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, quorum), newMemorySetter()
	p, via := proxyTo(t, i.url)
	i.cfg.URL = via
	in, stop := i.run(setter)
	const n = 2000
	for k := range n {
		i.publish(amqp.Publishing{MessageId: fmt.Sprint(k), Headers: amqp.Table{"x-delay": int32(1000)}})
		if k%400 == 399 {
			p.cut()
		}
	}
	eventually(t, time.Minute, "all messages are alarms", func() bool { return len(setter.all()) == n })
	eventually(t, time.Minute, "all are acked", func() bool {
		q, err := i.ch.QueueDeclarePassive(i.sourceQueue, true, false, false, false, nil)
		i.must(err)
		return q.Messages == 0
	})
	stop()
	if left := i.waiting(); left != 0 {
		t.Errorf("%d messages are not acked", left)
	}
	if in.counted(resultRefused) != 0 {
		t.Errorf("%d refused", in.counted(resultRefused))
	}
	t.Logf("%d deliveries again", in.counted(resultDuplicate))
}

// A dead letter that no queue takes stays in the intake, and other messages pass.
func TestDeadLetterWithoutAQueueIsKept(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	i.must(i.ch.QueueUnbind(i.deadQueue, "#", i.deadLetters, nil))
	bad := amqp.Publishing{MessageId: "bad", Headers: amqp.Table{"x-delay": "soon"}}
	i.publish(bad)
	in, stop := i.run(setter)
	eventually(t, time.Minute, "the dead letter fails", func() bool { return in.counted(resultNoDeadLetter) > 1 })
	i.publish(amqp.Publishing{MessageId: "good"})
	eventually(t, time.Minute, "the good message is an alarm", func() bool { return len(setter.all()) == 1 })
	if warnings := in.s.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0], "dead letters") {
		t.Errorf("warnings: %q", warnings)
	}
	stop()
	if i.waiting() != 1 {
		t.Errorf("%d messages wait, want the bad one", i.waiting())
	}
	i.must(i.ch.QueueBind(i.deadQueue, "#", i.deadLetters, false, nil))
	_, stop = i.run(setter)
	i.take(i.deadQueue, 1)
	stop()
	if i.waiting() != 0 {
		t.Errorf("%d messages wait", i.waiting())
	}
}

// One dead letter without a queue fails alone.
func TestReturnedDeadLetterFailsAlone(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	i.must(i.ch.QueueUnbind(i.deadQueue, "#", i.deadLetters, nil))
	i.must(i.ch.QueueBind(i.deadQueue, "bound", i.deadLetters, false, nil))
	const n = 20
	for k := range n {
		key := "bound"
		if k%5 == 0 {
			key = "unbound"
		}
		i.must(i.ch.Publish(i.source, key, true, false, amqp.Publishing{MessageId: fmt.Sprint(k), Headers: amqp.Table{"x-delay": "soon"}}))
	}
	in, stop := i.run(setter)
	i.take(i.deadQueue, n-n/5)
	eventually(t, time.Minute, "the others fail", func() bool { return in.counted(resultNoDeadLetter) >= n/5 })
	stop()
	if i.waiting() != n/5 || in.counted(resultDeadLetter) != n-n/5 {
		t.Errorf("%d messages wait, %d dead letters, want %d and %d", i.waiting(), in.counted(resultDeadLetter), n/5, n-n/5)
	}
}

func TestIntakeWithoutItsQueueOrExchangeSaysSo(t *testing.T) {
	t.Parallel()
	i := newIntakeTest(t, nil)
	good := i.cfg
	for what, change := range map[string]func(){
		"queue":    func() { i.cfg.Intake.Queue = unique("missing") },
		"exchange": func() { i.cfg.Intake.DeadLetters = unique("missing") },
	} {
		i.cfg = good
		change()
		in, stop := i.run(newMemorySetter())
		eventually(t, time.Minute, "a warning about the "+what, func() bool {
			warnings := strings.Join(in.s.Warnings(), "\n")
			return strings.Contains(warnings, "delayed messages are not taken: "+what) && strings.Contains(warnings, "NOT_FOUND")
		})
		stop()
	}
}

// A stream gives each message to every node, so the intake would double each message without an id.
func TestIntakeTakesNothingFromAStream(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeStream}), newMemorySetter()
	in, _ := i.run(setter)
	eventually(t, time.Minute, "a warning", func() bool {
		i.publish(amqp.Publishing{MessageId: "m"})
		return strings.Contains(strings.Join(in.s.Warnings(), "\n"), "is a stream")
	})
	if len(setter.all()) != 0 {
		t.Error("a message of a stream is an alarm")
	}
}

// FuzzSetOf: no message is an alarm that the service refuses for its form, and none panics.
func FuzzSetOf(f *testing.F) {
	f.Add("m", "shop", "order-1", "60000", int64(5), "text/plain", []byte("body"))
	f.Add("", "", "", "", int64(-1), "", []byte(nil))
	f.Add(strings.Repeat("m", 255), "a b", " ", "soon", int64(1)<<62, "täxt", []byte{0})
	f.Fuzz(func(t *testing.T, messageID, application, businessID, delay string, at int64, contentType string, body []byte) {
		cfg := DefaultConfig().Intake
		d := &incoming{received: time.Now(), Delivery: amqp.Delivery{MessageId: messageID, ContentType: contentType, Body: body, Headers: amqp.Table{}}}
		for name, value := range map[string]string{"x-application": application, "x-business-id": businessID, "x-delay": delay} {
			if value != "" {
				d.Headers[name] = value
			}
		}
		if at >= 0 {
			d.Headers["x-ring-at"] = at
		}
		if len(messageID) > maxShortString || len(contentType) > maxShortString {
			return // no message of AMQP
		}
		set, refused := cfg.setOf(d, 0)
		if (set == nil) == (refused == nil) {
			t.Fatalf("%+v and %+v", set, refused)
		}
		if set == nil {
			return
		}
		again, refused := cfg.setOf(d, 0)
		if refused != nil || again.Key != set.Key || !bytes.Equal(again.Payload, set.Payload) {
			t.Fatalf("a second delivery gives %+v, %+v", again, refused)
		}
		m, err := clock.UnpackMessage(set.Payload)
		if err != nil || !bytes.Equal(m.Body, body) {
			t.Fatalf("%+v, %v", m, err)
		}
		if _, err := divideProperties(m.Properties); err != nil {
			t.Fatal(err)
		}
	})
}
