package rabbit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// book is an Answerer that writes down what it accepts.
type book struct {
	mu       sync.Mutex
	judge    func(clock.Answer) error // nil: all are accepted
	accepted map[int64]int            // by alarm id
	batches  []int                    // their sizes
	hold     chan struct{}            // when not nil, each batch waits for it
	held     chan struct{}            // gets a signal when a batch waits
}

func newBook() *book { return &book{accepted: map[int64]int{}, held: make(chan struct{}, 100)} }

func (b *book) Answer(ctx context.Context, answers []clock.Answer) []error {
	if b.hold != nil {
		b.held <- struct{}{}
		select {
		case <-b.hold:
		case <-ctx.Done():
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.batches = append(b.batches, len(answers))
	errs := make([]error, len(answers))
	for i, a := range answers {
		if ctx.Err() != nil {
			errs[i] = clock.Unconfirmed(ctx.Err())
		} else if b.judge != nil {
			errs[i] = b.judge(a)
		}
		if errs[i] == nil {
			b.accepted[a.Ring.AlarmID]++
		}
	}
	return errs
}

func (b *book) becomes(judge func(clock.Answer) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judge = judge
}

// count returns how many alarms have an answer that was accepted.
func (b *book) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.accepted)
}

// answersOf returns a consumer that is set up, and what stops it.
func answersOf(tb testing.TB, cfg Config, to Answerer, out *bytes.Buffer) (a *Answers, stop func()) {
	tb.Helper()
	handler := slog.Handler(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	if out != nil {
		handler = slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	s, err := New(cfg, Deps{Logger: slog.New(handler)})
	if err != nil {
		tb.Fatal(err)
	}
	a = s.Answers(to)
	stop = background(tb, a.Run)
	tb.Cleanup(stop)
	return a, stop
}

// answerable opens the broker with a queue for answers, which is gone after the test.
func answerable(tb testing.TB, url string, args amqp.Table) *broker {
	tb.Helper()
	b := open(tb, url)
	b.must(b.ch.ExchangeDeclare(b.exchange, "direct", true, false, false, false, nil)) // for the cleanup
	_, err := b.ch.QueueDeclare(answerQueue(b.exchange), true, false, false, false, args)
	b.must(err)
	tb.Cleanup(func() { b.remove(answerQueue(b.exchange)) })
	return b
}

// say publishes an answer as an application does: to reply_to, by the default exchange.
func (b *broker) say(d amqp.Publishing) {
	b.tb.Helper()
	b.must(b.ch.Publish("", answerQueue(b.exchange), true, false, d))
}

func (b *broker) ack(alarm int) {
	b.tb.Helper()
	b.say(amqp.Publishing{Type: "alarm.ack", CorrelationId: fmt.Sprintf("%d.1.1", alarm), DeliveryMode: amqp.Persistent})
}

// left returns how many messages the queue holds when nobody consumes: none are unacked then.
func (b *broker) left() int {
	b.tb.Helper()
	b.channel()
	q, err := b.ch.QueueDeclarePassive(answerQueue(b.exchange), true, false, false, false, nil)
	b.must(err)
	return q.Messages
}

func (a *Answers) counted(kind, result string) float64 {
	return testutil.ToFloat64(a.s.metrics.answers.WithLabelValues(kind, result))
}

func TestAnswersAreTakenByKindAndResult(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	book, out := newBook(), new(bytes.Buffer)
	var got []clock.Answer
	results := map[int64]error{
		1: nil, 2: &clock.Error{Kind: clock.ErrNotFound, Detail: "no such ring"}, 3: &clock.Error{Kind: clock.ErrConflict, Detail: "stale ring"},
		4: &clock.Error{Kind: clock.ErrInvalid, Detail: "delay out of range"},
	}
	book.judge = func(a clock.Answer) error {
		got = append(got, a)
		return results[a.Ring.AlarmID]
	}
	for i, kind := range []string{"alarm.ack", "alarm.release", "alarm.bury", "alarm.touch"} {
		b.say(amqp.Publishing{
			Type: kind, AppId: "shop", Body: []byte("SECRET"),
			Headers: headers{"x-message-id": fmt.Sprintf("%d.1.1", i+1), "x-delay": []any{int8(1), int16(1), int32(1), "1"}[i], "x-reason": "why"},
		})
	}
	for _, d := range malformed {
		b.say(amqp.Publishing{Type: d.Type, CorrelationId: d.CorrelationId, Headers: d.Headers, Body: []byte("SECRET")})
	}
	b.ack(9)
	a, stop := answersOf(t, b.config(), book, out)
	eventually(t, 5*time.Second, "the last answer", func() bool { return book.count() == 2 })
	stop()
	if n := b.left(); n != 0 {
		t.Errorf("%d answers are left", n)
	}
	for i, kind := range []clock.AnswerKind{clock.Ack, clock.Release, clock.Bury, clock.Touch} {
		want := clock.Answer{
			Kind: kind, Ring: clock.RingID{AlarmID: int64(i + 1), Generation: 1, RingNo: 1}, By: "shop", Reason: "why",
			Delay: clock.Delay{Given: true, Span: time.Millisecond},
		}
		if got[i] != want {
			t.Errorf("answer %d is %+v, want %+v", i, got[i], want)
		}
	}
	for _, c := range []struct {
		kind, result string
		want         int
	}{
		{"ack", "accepted", 2}, {"release", "not_found", 1}, {"bury", "conflict", 1}, {"touch", "invalid", 1}, {"unknown", "malformed", len(malformed)},
	} {
		if n := a.counted(c.kind, c.result); n != float64(c.want) {
			t.Errorf("%s %s: %v, want %d", c.kind, c.result, n, c.want)
		}
	}
	if n := strings.Count(out.String(), "is no answer"); n != 1 || strings.Contains(out.String(), "SECRET") {
		t.Errorf("%d log lines on %d malformed messages:\n%s", n, len(malformed), out)
	}
	if !strings.Contains(out.String(), "level=DEBUG") || !strings.Contains(out.String(), "message_id=3.1.1") {
		t.Errorf("refused answers are not logged:\n%s", out)
	}
}

// Answers that cannot be applied wait, and are all applied when that is over, whatever came beside them.
func TestAnswersSurviveAnUnavailableService(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	book := newBook()
	down := map[int]error{
		0: &clock.Error{Kind: clock.ErrUnavailable, Detail: "no database", RetryAfter: 50 * time.Millisecond},
		1: &clock.Error{Kind: clock.ErrUnconfirmed, Detail: "who knows", RetryAfter: 20 * time.Millisecond},
		2: nil, // some are applied all the same
	}
	book.judge = func(a clock.Answer) error { return down[int(a.Ring.AlarmID)%3] }
	const n = 1500
	for i := range n {
		b.ack(i + 1)
		if i%100 == 0 {
			b.say(amqp.Publishing{Type: "no answer"}) // acked at once, whatever becomes of the others
		}
	}
	a, stop := answersOf(t, b.config(), book, nil)
	eventually(t, 10*time.Second, "it was tried again and again", func() bool { return a.counted("ack", "requeued") > 1500 })
	book.becomes(nil)
	eventually(t, 20*time.Second, "all are applied", func() bool { return book.count() == n })
	stop()
	if left := b.left(); left != 0 {
		t.Errorf("%d answers are left", left)
	}
	if m := a.counted("unknown", "malformed"); m != n/100 {
		t.Errorf("%v malformed, want %d", m, n/100)
	}
	for id, times := range book.accepted {
		if times != 1 {
			t.Errorf("answer of alarm %d was applied %d times", id, times)
		}
	}
}

// The pause before a requeue does not hold up the end, and what could not be applied is in the queue then.
func TestAnswersThatCannotBeAppliedAreLeftAtTheEnd(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	book := newBook()
	book.judge = func(a clock.Answer) error {
		if a.Ring.AlarmID == 3 {
			return nil
		}
		if a.Ring.AlarmID == 4 {
			return errors.New("a kind that is not known")
		}
		return &clock.Error{Kind: clock.ErrUnavailable, Detail: "no database", RetryAfter: time.Hour}
	}
	for i := range 5 {
		b.ack(i + 1)
	}
	a, stop := answersOf(t, b.config(), book, nil)
	eventually(t, 5*time.Second, "tried", func() bool { return a.counted("ack", "requeued") > 0 })
	began := time.Now()
	stop()
	if took := time.Since(began); took > answerPauseMax/2 {
		t.Errorf("the end took %s", took)
	}
	eventually(t, 5*time.Second, "the four are back", func() bool { return b.left() == 5-book.count() })
	if book.count() > 1 {
		t.Errorf("accepted %v", book.accepted)
	}
}

// The end waits for the answers that are taken, and for no others.
func TestAnswersTakenAreSettledBeforeTheEnd(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	cfg := b.config()
	cfg.AnswerPrefetch = 10
	book := newBook()
	book.hold = make(chan struct{})
	for i := range 50 {
		b.ack(i + 1)
	}
	_, stop := answersOf(t, cfg, book, nil)
	<-book.held
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	select {
	case <-ended:
		t.Fatal("the end did not wait for the answers under way")
	case <-time.After(300 * time.Millisecond):
	}
	close(book.hold)
	<-ended
	n := book.count()
	if n < 1 || n > 10 {
		t.Errorf("%d answers were applied, with a prefetch of 10", n)
	}
	eventually(t, 5*time.Second, "the others are left", func() bool { return b.left() == 50-n })
}

// A call that hangs holds up the end only so long, and nothing is lost.
func TestHangingAnswersDoNotHoldUpTheEnd(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	book := newBook()
	book.hold = make(chan struct{})
	b.ack(1)
	_, stop := answersOf(t, b.config(), book, nil)
	<-book.held
	began := time.Now()
	stop()
	if took := time.Since(began); took > answerDrain+2*time.Second {
		t.Errorf("the end took %s", took)
	}
	eventually(t, 5*time.Second, "it is left", func() bool { return b.left() == 1 })
}

func TestAnswersAreSharedAndSurviveCuts(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	p, via := through(t, b.url)
	cut := b.config()
	cut.URL = via
	books := []*book{newBook(), newBook(), newBook()}
	var stops []func()
	for i, book := range books {
		cfg := b.config()
		if i == 0 {
			cfg = cut
		}
		cfg.AnswerPrefetch = 20
		_, stop := answersOf(t, cfg, book, nil)
		stops = append(stops, stop)
	}
	all := func() int {
		seen := map[int64]bool{}
		for _, book := range books {
			book.mu.Lock()
			for id := range book.accepted {
				seen[id] = true
			}
			book.mu.Unlock()
		}
		return len(seen)
	}
	const n = 6000
	for i := range n {
		b.ack(i + 1)
		if i%1000 == 500 {
			p.cut()
		}
	}
	eventually(t, 20*time.Second, "all answers", func() bool { return all() == n })
	for i, book := range books {
		if book.count() == 0 {
			t.Errorf("consumer %d had none", i)
		}
	}
	for _, stop := range stops {
		stop()
	}
	if left := b.left(); left != 0 {
		t.Errorf("%d answers are left", left)
	}
}

func TestManyAnswersASecond(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	const n = 10_000
	for i := range n {
		b.ack(i + 1)
	}
	eventually(t, 10*time.Second, "all are in the queue", func() bool { return b.left() == n })
	book := newBook()
	began := time.Now()
	answersOf(t, b.config(), book, nil)
	eventually(t, 30*time.Second, "all answers", func() bool { return book.count() == n })
	t.Logf("%.0f answers a second in %d batches", n/time.Since(began).Seconds(), len(book.batches))
	if len(book.batches) > n/2 { // by how much depends on who is quicker, the broker or the book
		t.Errorf("%d batches", len(book.batches))
	}
}

func TestForeignQueueOfAnswersIsUsedWithAWarning(t *testing.T) {
	b := answerable(t, sharedURL, nil) // a classic one
	book := newBook()
	b.ack(1)
	a, _ := answersOf(t, b.config(), book, nil)
	eventually(t, 5*time.Second, "the answer", func() bool { return book.count() == 1 })
	if w := a.s.Warnings(); len(w) != 1 || !strings.Contains(w[0], answerQueue(b.exchange)+`" exists with other arguments`) {
		t.Errorf("warnings %q", w)
	}
}

// A queue that is deleted under the consumer is declared again, as others can declare it too.
func TestDeletedQueueOfAnswersIsDeclaredAgain(t *testing.T) {
	b := answerable(t, sharedURL, quorum)
	book := newBook()
	b.ack(1)
	a, _ := answersOf(t, b.config(), book, nil)
	eventually(t, 5*time.Second, "the answer", func() bool { return book.count() == 1 })
	b.remove(answerQueue(b.exchange))
	eventually(t, 5*time.Second, "the answer", func() bool {
		b.ack(2)
		return book.count() == 2
	})
	_, err := b.ch.QueueDeclare(answerQueue(b.exchange), true, false, false, false, quorum)
	b.must(err)
	eventually(t, 5*time.Second, "no warnings", func() bool { return a.s.Warnings() == nil })
}

func TestDeliveryLimitIsLiftedWhereThereIsOne(t *testing.T) {
	for version, want := range map[string]int{"3.10.8": 3, "4.0.0-rc.2": 4, "12.1": 12, "": 0, "x.y": 0} {
		if got := major(amqp.Table{"version": version}); got != want {
			t.Errorf("%q is %d, want %d", version, got, want)
		}
	}
	if major(nil) != 0 {
		t.Error("no properties")
	}
}
