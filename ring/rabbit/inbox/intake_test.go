package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// memorySetter is a Setter that keeps the alarms in memory, and decides like package clock.
type memorySetter struct {
	mu     sync.Mutex
	alarms map[clock.Key]*clock.Alarm
	sets   int               // number of submitted sets
	err    func(n int) error // outcome of the nth set, which then has no effect; nil: all have theirs
}

func newMemorySetter() *memorySetter { return &memorySetter{alarms: map[clock.Key]*clock.Alarm{}} }

// In is exact, because the instants are this machine's. It rounds up.
func (m *memorySetter) In(d time.Duration) (clock.Instant, error) {
	return clock.InstantOf(time.Now().Add(d + time.Millisecond - 1)), nil
}

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
	if s.Application == "full" {
		return &clock.Error{Kind: clock.ErrLimited, Code: clock.CodeQuotaPending, Detail: "as many as its quota"}
	}
	if err := s.Validate(clock.DefaultMaxPayload); err != nil {
		return err
	}
	d := clock.Op{Set: s}.Decide(m.alarms[s.Key], clock.InstantOf(time.Now()))
	if d.Err == nil {
		m.alarms[s.Key] = &d.Alarm
	}
	return d.Err
}

// end ends the alarm, as a ring does.
func (m *memorySetter) end(key clock.Key) {
	m.change(key, func(a *clock.Alarm) { a.State = clock.Rung })
}

func (m *memorySetter) change(key clock.Key, change func(a *clock.Alarm)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := *m.alarms[key]
	change(&changed)
	m.alarms[key] = &changed
}

func (m *memorySetter) setErr(err func(n int) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = err
}

func (m *memorySetter) all() map[clock.Key]*clock.Alarm {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.alarms)
}

// intakeTest is a broker with a queue for delayed messages, an exchange for them, and a queue of dead letters.
type intakeTest struct {
	*rabbittest.Broker
	source, sourceQueue, deadLetters, deadQueue string
	cfg                                         config
}

func newIntakeTest(t *testing.T, args amqp.Table) *intakeTest {
	t.Helper()
	b := rabbittest.Shared(t)
	b.Must(b.Ch.ExchangeDeclare(b.Exchange, "direct", true, false, false, false, nil)) // for the cleanup
	i := &intakeTest{
		Broker: b, source: rabbittest.Unique("source"), sourceQueue: rabbittest.Unique("delayed"), cfg: configOf(b),
	}
	b.Must(b.Ch.ExchangeDeclare(i.source, "topic", true, false, false, false, nil))
	t.Cleanup(func() { b.Channel(); _ = b.Ch.ExchangeDelete(i.source, false, false) })
	_, err := b.Ch.QueueDeclare(i.sourceQueue, true, false, false, false, args)
	b.Must(err)
	t.Cleanup(func() { b.Remove(i.sourceQueue) })
	b.Must(b.Ch.QueueBind(i.sourceQueue, "#", i.source, false, nil))
	i.deadLetters, i.deadQueue = b.OtherExchange("#")
	i.cfg.intake.Queue, i.cfg.intake.Exchange, i.cfg.intake.DeadLetters = i.sourceQueue, i.source, i.deadLetters
	return i
}

// run starts the intake, and returns it with a function that stops it.
func (i *intakeTest) run(setter Setter) (in *Intake, stop func()) {
	i.TB.Helper()
	in = i.intake(setter, i.TB.Output())
	stop = rabbittest.Background(i.TB, in.Run)
	i.TB.Cleanup(stop)
	return in, stop
}

// intake returns an intake that does not run yet. It logs to out.
func (i *intakeTest) intake(setter Setter, out io.Writer) *Intake {
	i.TB.Helper()
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo}))
	in := NewIntake(i.cfg.deps(i.TB, log), i.cfg.intake, setter)
	in.longest, in.s.silence = 20*time.Millisecond, 20*time.Millisecond
	return in
}

func (i *intakeTest) publish(p amqp.Publishing) {
	i.TB.Helper()
	i.Must(i.Ch.Publish(i.source, "order.cancel", true, false, p))
}

// waiting returns the number of messages in the queue without a consumer. The broker puts back the messages of a consumer
// soon after its end.
func (i *intakeTest) waiting() int {
	i.TB.Helper()
	q, err := i.Ch.QueueDeclarePassive(i.sourceQueue, true, false, false, false, nil)
	i.Must(err)
	return q.Messages
}

// end stops the intake, again and again until no message is left, and returns how many are. The first stop may come
// before a message whose alarm is set was acked, or before a quorum queue has applied the ack. The broker gives such
// a message again, as it should.
func (i *intakeTest) end(setter Setter, stop func()) (left int) {
	i.TB.Helper()
	for try := 1; ; try++ {
		stop()
		if left = i.waiting(); left == 0 || try == 10 {
			return left
		}
		_, stop = i.run(setter)
		rabbittest.Eventually(i.TB, time.Minute, "all are delivered", func() bool { return i.waiting() == 0 })
	}
}

func (in *Intake) counted(result string) int {
	return int(testutil.ToFloat64(in.s.Metrics.intake.WithLabelValues(result)))
}

func TestDelayedMessageBecomesAnAlarm(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	at, began := clock.Instant(2_000_000_000_123), clock.InstantOf(time.Now())
	i.publish(amqp.Publishing{
		MessageId: "m1", ContentType: "application/json", Priority: 7, UserId: "guest", Body: []byte(`{"order":1}`),
		Headers: amqp.Table{"x-delay": int32(3_600_000), "x-clockd-ring-at": int64(1), "mine": "kept"},
	})
	i.publish(amqp.Publishing{MessageId: "m2",
		Headers: amqp.Table{"x-ring-at": int64(at), "x-application": "shop", "x-business-id": "order-2"}})
	i.publish(amqp.Publishing{MessageId: strings.Repeat("m", 200), Headers: amqp.Table{"x-ring-at": at.String()}})
	i.publish(amqp.Publishing{MessageId: "at once"})
	i.publish(amqp.Publishing{MessageId: "past", Headers: amqp.Table{"x-delay": int64(-5)}})
	i.publish(amqp.Publishing{})
	i.publish(amqp.Publishing{})
	_, stop := i.run(setter)
	rabbittest.Eventually(t, time.Minute, "seven alarms", func() bool { return len(setter.all()) == 7 })
	stop()
	if n := i.waiting(); n != 0 {
		t.Errorf("%d messages are not acked", n)
	}

	alarms := setter.all()
	first := alarms[clock.Key{Application: "intake", BusinessID: "m1"}]
	if first == nil || first.RingAt < began.Add(time.Hour) || first.RingAt > began.Add(2*time.Hour) ||
		first.Priority != 7 || first.ContentType != "application/json" {
		t.Fatalf("the first alarm is %+v", first)
	}
	m, err := clock.UnpackMessage(first.Payload)
	if err != nil || m.Exchange != i.source || m.RoutingKey != "order.cancel" || string(m.Body) != `{"order":1}` {
		t.Fatalf("the first alarm holds %+v, %v", m, err)
	}
	want, err := wire.EncodeProperties(&amqp.Delivery{
		MessageId: "m1", ContentType: "application/json", Priority: 7,
		Headers: amqp.Table{"x-delay": int32(-3_600_000), "mine": "kept"},
	})
	if err != nil || !bytes.Equal(m.Properties, want) {
		t.Errorf("properties %q, want %q", m.Properties, want)
	}
	if second := alarms[clock.Key{Application: "shop", BusinessID: "order-2"}]; second == nil || second.RingAt != at {
		t.Errorf("the second alarm is %+v", second)
	}
	for _, id := range []string{"at once", "past"} {
		if s := alarms[clock.Key{Application: "intake", BusinessID: id}]; s == nil || s.RingAt < began ||
			s.RingAt > began.Add(time.Hour) {
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
		"seconds":     {Headers: amqp.Table{"x-ring-at": int64(1_800_000_000)}},
		"far":         {Headers: amqp.Table{"x-ring-at": time.Unix(18446744073709552, 0)}}, // 384 ms, if its milliseconds overflow
		"too late":    {Headers: amqp.Table{"x-delay": int64(1) << 60}},
		"application": {Headers: amqp.Table{"x-application": "a b"}},
		"table":       {Headers: amqp.Table{"x-application": amqp.Table{}}},
		"quota":       {Headers: amqp.Table{"x-application": "full"}},
		"bad id":      {Headers: amqp.Table{"x-business-id": " blank "}},
		"taken":       {Headers: amqp.Table{"x-business-id": "taken"}, Body: []byte("other")},
		"packed":      {Body: bytes.Repeat([]byte("b"), clock.DefaultMaxPayload)},
		"large":       {Body: bytes.Repeat([]byte("b"), 10*clock.DefaultMaxPayload)},
		"headers":     {Headers: amqp.Table{"long": strings.Repeat("h", 70_000)}},
		"full frame":  {Headers: amqp.Table{"long": strings.Repeat("h", 131_072-60)}}, // no byte is left in the frame for a header of ours
		"number":      {Headers: amqp.Table{"x-business-id": int32(4711)}},
		"deep":        {Headers: amqp.Table{"deep": rabbittest.Nested(61)}},
		"wide":        {Headers: amqp.Table{"wide": slices.Repeat([]any{true}, 9000)}, Body: []byte("kept")},
		"many":        {Headers: rabbittest.Numbered(8191)}, // with ours there would be too many for the library
	}
	codes := map[string]string{
		"two times": clock.CodeInvalidValue, "no number": clock.CodeInvalidValue, "no time": clock.CodeInvalidValue,
		"too late":    clock.CodeOutOfRange,
		"before 1970": clock.CodeInvalidValue, "seconds": clock.CodeInvalidValue, "far": clock.CodeInvalidValue,
		"application": clock.CodeInvalidApplication, "table": clock.CodeInvalidApplication,
		"bad id": clock.CodeInvalidBusinessID, "taken": codeIDTaken,
		"packed": clock.CodePayloadTooLarge, "large": clock.CodePayloadTooLarge, "headers": clock.CodePayloadTooLarge,
		"number": clock.CodeInvalidBusinessID, "deep": clock.CodeInvalidValue, "wide": clock.CodeInvalidValue,
		"many": clock.CodeInvalidValue, "quota": clock.CodeQuotaPending,
	}
	i.publish(amqp.Publishing{Headers: amqp.Table{"x-business-id": "taken"}, Body: []byte("one")})
	for name, p := range refused {
		p.MessageId = name
		i.publish(p)
	}
	i.publish(amqp.Publishing{MessageId: "good"})
	in, stop := i.run(setter)
	for _, d := range i.Take(i.deadQueue, len(refused)) {
		want := refused[d.MessageId]
		if d.MessageId == "full frame" {
			if len(d.Headers) != 1 || !reflect.DeepEqual(d.Headers, want.Headers) {
				t.Errorf("the dead letter with a full frame has %d headers", len(d.Headers))
			}
			continue
		}
		if d.Headers[headerRefusalCode] != codes[d.MessageId] || d.Headers[headerRefusalDetail] == "" ||
			d.Headers[headerRefusedBy] != i.sourceQueue {
			t.Errorf("dead letter %q has the headers %.300v", d.MessageId, d.Headers)
		}
		for _, ours := range []string{headerRefusalCode, headerRefusalDetail, headerRefusedBy, headerDeliveryTag} {
			delete(d.Headers, ours)
		}
		if want.Headers == nil {
			want.Headers = amqp.Table{}
		}
		if raw, unreadable := d.Headers[wire.HeaderUnreadable].([]byte); unreadable && len(raw) > 0 {
			d.Headers = want.Headers
		}
		if d.RoutingKey != "order.cancel" || !bytes.Equal(d.Body, want.Body) ||
			!reflect.DeepEqual(d.Headers, want.Headers) {
			t.Errorf("dead letter %q differs from the message: %.300v", d.MessageId, d.Headers)
		}
	}
	rabbittest.Eventually(t, time.Minute, "the good messages are alarms", func() bool { return len(setter.all()) == 2 })
	stop()
	if n := i.waiting(); n != 0 || in.counted(resultDeadLetter) != len(refused) {
		t.Errorf("%d messages are not acked, %d dead letters counted", n, in.counted(resultDeadLetter))
	}
}

// A quorum queue adds a header at the second delivery, with which a message that fills its frame is larger than any
// frame may be.
func TestMessageThatFillsItsFrameIsADeadLetterOfAQuorumQueue(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, amqp.Table{"x-queue-type": "quorum"}), newMemorySetter()
	const frame = 131_072
	sizes := []int{frame - 120, frame - 100, frame - 80, frame - 70, frame - 60, frame - 50, frame - 44}
	for _, size := range sizes {
		i.publish(amqp.Publishing{MessageId: fmt.Sprint(size), Headers: amqp.Table{"long": strings.Repeat("h", size)},
			Body: []byte("kept")})
	}
	i.publish(amqp.Publishing{MessageId: "good"})
	in, stop := i.run(setter)
	for _, d := range i.Take(i.deadQueue, len(sizes)) {
		if long, _ := d.Headers["long"].(string); fmt.Sprint(len(long)) != d.MessageId || len(d.Headers) != 1 ||
			string(d.Body) != "kept" {
			t.Errorf("the dead letter %s has %d headers and the body %q", d.MessageId, len(d.Headers), d.Body)
		}
	}
	rabbittest.Eventually(t, time.Minute, "the good message is an alarm", func() bool { return len(setter.all()) == 1 })
	stop()
	if n := i.waiting(); n != 0 || in.counted(resultDeadLetter) != len(sizes) {
		t.Errorf("%d messages are not acked, %d dead letters counted", n, in.counted(resultDeadLetter))
	}
}

// refusingSetter refuses all sets while the database is away, and keeps their times.
type refusingSetter struct {
	*memorySetter
	refused map[clock.Key]map[clock.Instant]int // number of refused sets, by time
}

func (r *refusingSetter) Set(_ context.Context, sets []*clock.Set, done func(i int, err error)) {
	for i, s := range sets {
		err := r.set(s)
		if err != nil {
			r.keep(s)
		}
		done(i, err)
	}
}

func (r *refusingSetter) keep(s *clock.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused[s.Key] == nil {
		r.refused[s.Key] = map[clock.Instant]int{}
	}
	r.refused[s.Key][s.RingAt]++
}

// refusedOften returns the number of alarms that were refused more than three times with the same time.
func (r *refusingSetter) refusedOften() (alarms int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, times := range r.refused {
		for _, n := range times {
			if n > 3 {
				alarms++
				break
			}
		}
	}
	return alarms
}

// Nothing is acked while the database is away, and nothing is lost. A delay counts from the receipt of its message.
func TestMessagesWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]amqp.Table{"classic": nil, "quorum, limit 2": rabbittest.Limited(nil)} {
		t.Run(name, func(t *testing.T) {
			i, setter := newIntakeTest(t, args), &refusingSetter{newMemorySetter(),
				map[clock.Key]map[clock.Instant]int{}}
			setter.setErr(func(int) error { return away })
			const n = 100
			for k := range n {
				i.publish(amqp.Publishing{MessageId: fmt.Sprint(k), Headers: amqp.Table{"x-delay": int32(1000)}})
			}
			in, stop := i.run(setter)
			rabbittest.Eventually(t, time.Minute, "each message is submitted often",
				func() bool { return setter.refusedOften() == n })
			if in.counted(resultSet) != 0 {
				t.Error("a message is an alarm without a database")
			}
			setter.setErr(nil)
			rabbittest.Eventually(t, time.Minute, "all messages are alarms",
				func() bool { return len(setter.all()) == n })
			if left := i.end(setter, stop); left != 0 {
				t.Errorf("%d messages are not acked", left)
			}
			for key, alarm := range setter.all() {
				if setter.refused[key][alarm.RingAt] == 0 {
					t.Errorf("%s rings at %s: its delay does not count from its receipt, as in %v", key.BusinessID,
						alarm.RingAt, setter.refused[key])
				}
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
	rabbittest.Eventually(t, time.Minute, "all are acked",
		func() bool { return in.counted(resultSet)+in.counted(resultDuplicate) == n })
	stop()
	if len(setter.all()) != n || i.waiting() != 0 || in.counted(resultDuplicate) == 0 {
		t.Errorf("%d alarms of %d messages, %d not acked, %d duplicates", len(setter.all()), n, i.waiting(),
			in.counted(resultDuplicate))
	}
}

// lossySetter loses the outcome of each second set. The alarm has rung when the message is submitted again.
type lossySetter struct{ *memorySetter }

func (l *lossySetter) Set(_ context.Context, sets []*clock.Set, done func(i int, err error)) {
	for i, s := range sets {
		err := l.set(s)
		if err == nil && i%2 == 0 {
			l.end(s.Key)
			err = clock.Unconfirmed(context.DeadlineExceeded)
		}
		done(i, err)
	}
}

// A consumer publishes a message again, with the same id. Its alarm is over, so the message is a new one. While the
// alarm waits it is a repeat, or has an id that is taken.
func TestMessageWhoseAlarmIsOverArmsItAgain(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	in, stop := i.run(setter)
	key := clock.Key{Application: "intake", BusinessID: "m"}
	generation := func() int64 {
		if alarm := setter.all()[key]; alarm != nil {
			return alarm.Generation
		}
		return 0
	}
	first := amqp.Publishing{MessageId: "m", Headers: amqp.Table{"x-delay": int32(0)}, Body: []byte("body")}
	other := first
	other.Headers = amqp.Table{"x-delay": int32(60_000), "attempt": int32(2)}
	exact := first
	exact.Headers = amqp.Table{"x-ring-at": int64(clock.InstantOf(time.Now()).Add(time.Hour))}
	for k, again := range []amqp.Publishing{first, first, other, exact} {
		want := int64(k + 1)
		i.publish(again)
		rabbittest.Eventually(t, time.Minute, "the alarm is armed", func() bool { return generation() == want })
		i.publish(again)
		rabbittest.Eventually(t, time.Minute, "a repeat is a duplicate",
			func() bool { return in.counted(resultDuplicate) == k+1 })
		setter.end(key)
	}
	i.publish(exact) // it has the time of the alarm
	rabbittest.Eventually(t, time.Minute, "a repeat is a duplicate",
		func() bool { return in.counted(resultDuplicate) == 5 })
	i.publish(first)
	rabbittest.Eventually(t, time.Minute, "the alarm is armed", func() bool { return generation() == 5 })
	i.publish(other)
	if dead := i.Take(i.deadQueue, 1)[0]; dead.Headers[headerRefusalCode] != codeIDTaken {
		t.Errorf("the message of an alarm that waits has the code %v", dead.Headers[headerRefusalCode])
	}
	stop()
	if i.waiting() != 0 || generation() != 5 {
		t.Errorf("%d messages wait, generation %d", i.waiting(), generation())
	}
}

// The alarm may be deleted between the look at it and the set that arms it again.
func TestMessageWhoseAlarmIsDeletedMeanwhileIsAnAlarm(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	gone := &clock.Error{Kind: clock.ErrPrecondition, Code: clock.CodeConditionFailed}
	over := *gone
	over.Alarm = &clock.Alarm{Generation: 7, RingRow: clock.RingRow{State: clock.Rung}}
	setter.setErr(func(n int) error { return [...]error{1: &over, 2: gone, 3: nil}[n] })
	i.publish(amqp.Publishing{MessageId: "m"})
	i.run(setter)
	rabbittest.Eventually(t, time.Minute, "the message is an alarm", func() bool { return len(setter.all()) == 1 })
}

// heldTurn is a turn whose set-ups a test may hold. A value sent to held is taken by the next set-up, which goes on
// when the value is closed.
type heldTurn struct {
	*intakeTurn
	held chan (<-chan struct{})
}

func (h *heldTurn) prepare(l *wire.Link) (*copyRules, []string, error) {
	select {
	case released := <-h.held:
		<-released
	default:
	}
	return h.intakeTurn.prepare(l)
}

// lockedBuffer is a buffer that goroutines share.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A queue that is deleted and declared again at once is consumed again. A consumer that the broker cancels connects
// again too. RabbitMQ 3.10 does not cancel the consumer of a quorum queue. A log line reports this loss. No line
// reports an idle consumer, or messages of another consumer.
func TestQueueOfTheIntakeMayBeDeclaredAgain(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]amqp.Table{"classic": nil, "quorum": rabbittest.Quorum} {
		t.Run(name, func(t *testing.T) {
			i, setter := newIntakeTest(t, args), newMemorySetter()
			var out lockedBuffer
			in := i.intake(setter, io.MultiWriter(t.Output(), &out))
			turn := &heldTurn{intakeTurn: &intakeTurn{Intake: in}, held: make(chan (<-chan struct{}))}
			var cancelled atomic.Bool // the broker has cancelled a consumer
			t.Cleanup(rabbittest.Background(t, func(ctx context.Context) error {
				for ctx.Err() == nil {
					if _, err := in.s.consume(ctx, turn); errors.Is(err, wire.ErrCancelled) {
						cancelled.Store(true)
					}
				}
				return nil
			}))
			n := 0
			publish := func() {
				n++
				i.publish(amqp.Publishing{MessageId: fmt.Sprint(n)})
			}
			taken := func() {
				t.Helper()
				rabbittest.Eventually(t, time.Minute, "the message is an alarm",
					func() bool { return len(setter.all()) == n })
			}
			holdRenewal := func() (release func()) {
				released := make(chan struct{})
				release = sync.OnceFunc(func() { close(released) })
				t.Cleanup(release)
				turn.held <- released
				return release
			}
			for range 3 { // the message waits for the consumer that replaces an idle one
				release := holdRenewal()
				publish()
				rabbittest.Eventually(t, time.Minute, "the message waits", func() bool { return i.waiting() == 1 })
				release()
				taken()
			}
			losses := func() int { return strings.Count(out.String(), "silent consumer") }
			if losses() > 0 {
				t.Errorf("an idle consumer is reported as lost:\n%s", out.String())
			}
			declareAgain := func() {
				i.Remove(i.sourceQueue)
				_, err := i.Ch.QueueDeclare(i.sourceQueue, true, false, false, false, args)
				i.Must(err)
				i.Must(i.Ch.QueueBind(i.sourceQueue, "#", i.source, false, nil))
				publish()
				taken()
			}
			for range 3 {
				declareAgain()
			}
			for deadline := time.Now().Add(rabbittest.HangGuard); !cancelled.Load() && losses() == 0; declareAgain() { // a renewal before the message hides the loss
				if time.Now().After(deadline) {
					t.Fatal("the loss is not reported")
				}
			}
			line := regexp.MustCompile(`level=WARN msg="silent consumer .* queue=` + i.sourceQueue + ` count=1\n`)
			reported := losses()
			if reported > 0 && (args == nil || !line.MatchString(out.String())) { // of a quorum queue one consumer may be cancelled, and another lost
				t.Errorf("the log is\n%s", out.String())
			}

			release := holdRenewal() // another consumer gives a message back after the renewal
			publish()
			var other amqp.Delivery
			rabbittest.Eventually(t, time.Minute, "another consumer gets the message", func() (found bool) {
				var err error
				other, found, err = i.Ch.Get(i.sourceQueue, false)
				i.Must(err)
				return found
			})
			consumers := func() int {
				q, err := i.Ch.QueueDeclarePassive(i.sourceQueue, true, false, false, false, nil)
				i.Must(err)
				return q.Consumers
			}
			before := consumers() // a quorum queue counts the other consumer
			in.s.silence = time.Hour
			release()
			rabbittest.Eventually(t, time.Minute, "the queue has one more consumer",
				func() bool { return consumers() > before })
			i.Must(other.Nack(false, true))
			taken()
			if losses() != reported {
				t.Errorf("a message that another consumer gave back is reported as a loss:\n%s", out.String())
			}
		})
	}
}

// A consumer whose messages wait to be submitted again is not silent: a new consumer would count their delays anew.
func TestConsumerWithWaitingMessagesIsNotSilent(t *testing.T) {
	t.Parallel()
	ended := 0
	c := &consumer{resubmitted: make(chan *incoming, 1), endTurn: func() { ended++ }}
	c.inFlight.Store(1)
	if err := c.settleOne(settlement{delivery: &incoming{}, action: actionResubmit}); err != nil {
		t.Fatal(err)
	}
	c.renewIfSilent()
	if ended != 0 {
		t.Error("a consumer with a message that waits was renewed")
	}
}

func TestTimesOfMessages(t *testing.T) {
	t.Parallel()
	const year = int64(365 * 24 * time.Hour / time.Millisecond)
	now := clock.Instant(1_800_000_000_000)
	in := func(d time.Duration) (clock.Instant, error) { return now.Add(d), nil }
	for _, c := range []struct {
		header string
		value  any
		want   clock.Instant
		code   string
	}{
		{"x-delay", int32(0), now, ""},
		{"x-delay", int64(-1) << 60, now, ""},
		{"x-delay", int64(math.MinInt64), now, ""},
		{"x-delay", "-9223372036854775809", now, ""},
		{"x-delay", amqp.Decimal{Scale: 1, Value: 600_009}, now.Add(time.Minute), ""},
		{"x-delay", int64(-60_000), now, ""},
		{"x-delay", 60_000.9, now.Add(time.Minute), ""},
		{"x-delay", float32(60_000.5), now.Add(time.Minute), ""},
		{"x-delay", -1.5, now, ""},
		{"x-delay", math.NaN(), 0, clock.CodeInvalidValue},
		{"x-delay", math.Inf(1), 0, clock.CodeOutOfRange},
		{"x-delay", 1e300, 0, clock.CodeOutOfRange},
		{"x-delay", 100 * year, now.Add(100 * 365 * 24 * time.Hour), ""},
		{"x-delay", 100*year + 1, 0, clock.CodeOutOfRange},
		{"x-delay", 292 * year, 0, clock.CodeOutOfRange},
		{"x-delay", 293 * year, 0, clock.CodeOutOfRange},
		{"x-delay", "99999999999999999999", 0, clock.CodeOutOfRange},
		{"x-delay", "1.5", 0, clock.CodeInvalidValue},
		{"x-delay", true, 0, clock.CodeInvalidValue},
		{"x-ring-at", int64(now), now, ""},
		{"x-ring-at", float64(now), now, ""},
		{"x-ring-at", int64(-1), 0, clock.CodeInvalidValue},
		{"x-ring-at", int64(now) / 1000, 0, clock.CodeInvalidValue}, // seconds
		{"x-ring-at", int64(99_999_999_999), 0, clock.CodeInvalidValue},
		{"x-ring-at", fmt.Sprint(int64(now) / 1000), 0, clock.CodeInvalidValue},
		{"x-ring-at", -1.0, 0, clock.CodeInvalidValue},
		{"x-ring-at", int64(math.MaxInt64), 0, clock.CodeInvalidValue},
		{"x-ring-at", math.NaN(), 0, clock.CodeInvalidValue},
		{"x-ring-at", now.Time(), now, ""},
		{"x-ring-at", time.Unix(-1, 0), 0, clock.CodeInvalidValue},
		{"x-ring-at", time.Unix(18446744073709552, 0), 0, clock.CodeInvalidValue}, // its milliseconds overflow
		{"x-ring-at", time.Unix(math.MaxInt64, 0), 0, clock.CodeInvalidValue},
		{"x-ring-at", time.Unix(math.MinInt64, 0), 0, clock.CodeInvalidValue},
	} {
		cfg := DefaultIntakeConfig()
		d := &incoming{received: time.Now().Add(-time.Millisecond), ringAt: clock.NoInstant,
			Delivery: amqp.Delivery{MessageId: "m", Headers: amqp.Table{c.header: c.value}}}
		set, err := cfg.setOf(d, in, 0)
		var refused *refusedMessage
		switch {
		case c.code == "" &&
			(err != nil || set.RingAt > c.want || set.RingAt < c.want.Add(-time.Minute) || set.RingAt < now):
			t.Errorf("%s %v: %+v, %v", c.header, c.value, set, err)
		case c.code != "" && (!errors.As(err, &refused) || refused.code != c.code):
			t.Errorf("%s %v: %+v, %v, want %s", c.header, c.value, set, err, c.code)
		case c.code == "" && set.Validate(clock.DefaultMaxPayload) != nil:
			t.Errorf("%s %v: %v", c.header, c.value, set.Validate(clock.DefaultMaxPayload))
		}
	}
}

// A message keeps its time when it is submitted again. Without the time of the database it waits.
func TestMessageKeepsItsTime(t *testing.T) {
	t.Parallel()
	cfg := DefaultIntakeConfig()
	d := &incoming{received: time.Now(), ringAt: clock.NoInstant,
		Delivery: amqp.Delivery{Headers: amqp.Table{"x-delay": int32(60_000)}}}
	if set, err := cfg.setOf(d, func(time.Duration) (clock.Instant, error) { return clock.NoInstant, away }, 0); set != nil || !errors.Is(err, away) {
		t.Errorf("without a time: %+v, %v", set, err)
	}
	for _, now := range []clock.Instant{1_800_000_000_000, 1_900_000_000_000} {
		set, err := cfg.setOf(d, func(d time.Duration) (clock.Instant, error) { return now.Add(d), nil }, 0)
		if err != nil || set.RingAt.Sub(1_800_000_000_000) > time.Minute {
			t.Errorf("%+v, %v", set, err)
		}
	}
}

// A message that is delivered again, because its ack was lost, is the same alarm.
func TestCutIntakeDoublesNoMessageWithAnID(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, rabbittest.Quorum), newMemorySetter()
	p, via := rabbittest.ProxyTo(t, i.URL)
	i.cfg.url = via
	in, stop := i.run(setter)
	const n = 2000
	for k := range n {
		i.publish(amqp.Publishing{MessageId: fmt.Sprint(k), Headers: amqp.Table{"x-delay": int32(1000)}})
		if k%400 == 399 {
			p.Cut()
		}
	}
	rabbittest.Eventually(t, time.Minute, "all messages are alarms", func() bool { return len(setter.all()) == n })
	left := n
	for range 10 { // the broker does not count messages that are delivered and not acked: a stop gives them back
		rabbittest.Eventually(t, time.Minute, "all are delivered", func() bool { return i.waiting() == 0 })
		stop()
		if in.counted(resultRefused) != 0 {
			t.Errorf("%d refused", in.counted(resultRefused))
		}
		if left = i.waiting(); left == 0 {
			break
		}
		in, stop = i.run(setter)
	}
	if all := setter.all(); left != 0 || len(all) != n {
		t.Errorf("%d messages are not acked, of %d there are %d alarms", left, n, len(all))
	}
	t.Logf("%d deliveries again", in.counted(resultDuplicate))
}

// A dead letter that no queue takes stays in the intake, and other messages pass.
func TestDeadLetterWithoutAQueueIsKept(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	i.Must(i.Ch.QueueUnbind(i.deadQueue, "#", i.deadLetters, nil))
	bad := amqp.Publishing{MessageId: "bad", Headers: amqp.Table{"x-delay": "soon"}}
	i.publish(bad)
	in, stop := i.run(setter)
	rabbittest.Eventually(t, time.Minute, "the dead letter fails",
		func() bool { return in.counted(resultNoDeadLetter) > 1 })
	i.publish(amqp.Publishing{MessageId: "good"})
	rabbittest.Eventually(t, time.Minute, "the good message is an alarm", func() bool { return len(setter.all()) == 1 })
	if warnings := i.cfg.warnings.all(); len(warnings) != 1 || !strings.Contains(warnings[0], "dead letters") {
		t.Errorf("warnings: %q", warnings)
	}
	stop()
	rabbittest.Eventually(t, time.Minute, "the bad message is back", func() bool { return i.waiting() == 1 })
	i.Must(i.Ch.QueueBind(i.deadQueue, "#", i.deadLetters, false, nil))
	_, stop = i.run(setter)
	i.Take(i.deadQueue, 1)
	stop()
	if i.waiting() != 0 {
		t.Errorf("%d messages wait", i.waiting())
	}
}

// One dead letter without a queue fails alone.
func TestReturnedDeadLetterFailsAlone(t *testing.T) {
	t.Parallel()
	i, setter := newIntakeTest(t, nil), newMemorySetter()
	i.Must(i.Ch.QueueUnbind(i.deadQueue, "#", i.deadLetters, nil))
	i.Must(i.Ch.QueueBind(i.deadQueue, "bound", i.deadLetters, false, nil))
	const n = 20
	for k := range n {
		key := "bound"
		if k%5 == 0 {
			key = "unbound"
		}
		i.Must(i.Ch.Publish(i.source, key, true, false,
			amqp.Publishing{MessageId: fmt.Sprint(k), Headers: amqp.Table{"x-delay": "soon"}}))
	}
	in, stop := i.run(setter)
	i.Take(i.deadQueue, n-n/5)
	rabbittest.Eventually(t, time.Minute, "the others fail",
		func() bool { return in.counted(resultNoDeadLetter) >= n/5 })
	stop()
	rabbittest.Eventually(t, time.Minute, "the others are back", func() bool { return i.waiting() == n/5 })
	if dead := in.counted(resultDeadLetter); dead != n-n/5 {
		t.Errorf("%d dead letters, want %d", dead, n-n/5)
	}
}

func TestIntakeWithoutItsQueueOrExchangeSaysSo(t *testing.T) {
	t.Parallel()
	i := newIntakeTest(t, nil)
	good := i.cfg
	for what, change := range map[string]func(){
		"queue":    func() { i.cfg.intake.Queue = rabbittest.Unique("missing") },
		"exchange": func() { i.cfg.intake.DeadLetters = rabbittest.Unique("missing") },
	} {
		i.cfg = good
		change()
		_, stop := i.run(newMemorySetter())
		rabbittest.Eventually(t, time.Minute, "a warning about the "+what, func() bool {
			warnings := strings.Join(i.cfg.warnings.all(), "\n")
			return strings.Contains(warnings, "delayed messages are not taken: "+what) &&
				strings.Contains(warnings, "NOT_FOUND")
		})
		stop()
	}
}

// A stream gives each message to every node, so the intake would double each message without an id.
func TestMessagesOfAStreamAreDeadLetters(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]amqp.Table{
		"stream": {amqp.QueueTypeArg: amqp.QueueTypeStream}, "published again": rabbittest.Quorum,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, setter := newIntakeTest(t, args), newMemorySetter()
			in, _ := i.run(setter)
			message := amqp.Publishing{MessageId: "m"}
			if name == "published again" {
				message.Headers = amqp.Table{"x-stream-offset": int64(7)}
			}
			rabbittest.Eventually(t, time.Minute, "a warning and a dead letter", func() bool {
				i.publish(message) // a consumer of a stream gets only messages that are published after its start
				return strings.Contains(strings.Join(i.cfg.warnings.all(), "\n"), "messages of a stream") &&
					in.counted(resultDeadLetter) > 0
			})
			d := i.Take(i.deadQueue, 1)[0]
			if d.Headers[headerRefusalCode] != clock.CodeInvalidValue || d.Headers[headerRefusalDetail] != messageOfAStream {
				t.Errorf("the dead letter has the headers %v", d.Headers)
			}
			if len(setter.all()) != 0 {
				t.Error("a message of a stream is an alarm")
			}
			if name == "published again" { // the others pass, also beside one that takes the whole turn of a large message
				i.publish(amqp.Publishing{MessageId: "large", Body: bytes.Repeat([]byte("b"), 10*clock.DefaultMaxPayload)})
				i.publish(message)
				i.publish(amqp.Publishing{MessageId: "good"})
				rabbittest.Eventually(t, time.Minute, "the good message is an alarm", func() bool { return len(setter.all()) == 1 })
			}
		})
	}
}

// FuzzSetOf: no message is an alarm that the service refuses for its form, and none panics.
func FuzzSetOf(f *testing.F) {
	f.Add("m", "shop", "order-1", "60000", int64(5), "text/plain", []byte("body"))
	f.Add("", "", "", "", int64(-1), "", []byte(nil))
	f.Add(strings.Repeat("m", 255), "a b", " ", "soon", int64(1)<<62, "täxt", []byte{0})
	f.Fuzz(func(t *testing.T, messageID, application, businessID, delay string, at int64, contentType string, body []byte) {
		cfg := DefaultIntakeConfig()
		d := &incoming{received: time.Now(), ringAt: clock.NoInstant,
			Delivery: amqp.Delivery{MessageId: messageID, ContentType: contentType, Body: body, Headers: amqp.Table{}}}
		for name, value := range map[string]string{"x-application": application, "x-business-id": businessID, "x-delay": delay} {
			if value != "" {
				d.Headers[name] = value
			}
		}
		if at >= 0 {
			d.Headers["x-ring-at"] = at
		}
		if len(messageID) > wire.MaxShortString || len(contentType) > wire.MaxShortString {
			return // no message of AMQP
		}
		in := func(d time.Duration) (clock.Instant, error) { return clock.InstantOf(time.Now()).Add(d), nil }
		set, err := cfg.setOf(d, in, 0)
		if _, refused := errors.AsType[*refusedMessage](err); (set == nil) != refused {
			t.Fatalf("%+v and %v", set, err)
		}
		if set == nil {
			return
		}
		again, err := cfg.setOf(d, in, 0)
		if err != nil || again.Key != set.Key || again.RingAt != set.RingAt ||
			!bytes.Equal(again.Payload, set.Payload) {
			t.Fatalf("a second submit gives %+v, %v", again, err)
		}
		m, err := clock.UnpackMessage(set.Payload)
		if err != nil || !bytes.Equal(m.Body, body) {
			t.Fatalf("%+v, %v", m, err)
		}
		if _, err := wire.DivideProperties(m.Properties); err != nil {
			t.Fatal(err)
		}
	})
}

// While a ring of the alarm is under way or in doubt, a message with its id waits: the consumer of the ring may have
// published it.
func TestMessageWaitsForTheRingOfItsAlarm(t *testing.T) {
	t.Parallel()
	for name, ring := range map[string]clock.RingRow{
		"claimed":  {State: clock.Ringing, RungAt: clock.NoInstant},
		"in doubt": {State: clock.Scheduled, InDoubt: true},
	} {
		t.Run(name, func(t *testing.T) {
			i, setter := newIntakeTest(t, nil), newMemorySetter()
			in, _ := i.run(setter)
			key := clock.Key{Application: "intake", BusinessID: "m"}
			message := amqp.Publishing{MessageId: "m", Headers: amqp.Table{"x-delay": int32(0)}}
			i.publish(message)
			rabbittest.Eventually(t, time.Minute, "the message is an alarm",
				func() bool { return len(setter.all()) == 1 })
			setter.change(key, func(a *clock.Alarm) { a.RingRow, a.RingAt = ring, a.RingAt-1 }) // it rings after its time, so the next message has another
			i.publish(message)
			rabbittest.Eventually(t, time.Minute, "it waits", func() bool { return in.counted(resultHeld) > 5 })
			setter.end(key)
			rabbittest.Eventually(t, time.Minute, "it arms the alarm again",
				func() bool { return setter.all()[key].Generation == 2 })
			if in.counted(resultDuplicate)+in.counted(resultRefused) != 0 {
				t.Errorf("%d duplicates, %d refused", in.counted(resultDuplicate), in.counted(resultRefused))
			}
		})
	}
}
