package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// fakeAnswerer is an Answerer that records the answers it accepts.
type fakeAnswerer struct {
	mu       sync.Mutex
	judge    func(clock.Answer) error // nil: every answer is accepted
	accepted map[int64]int            // number of accepted answers by alarm id
	batches  []int                    // sizes of the submitted batches
	release  chan struct{}            // not nil: each batch waits until release is closed
	waiting  chan struct{}            // receives a signal when a batch waits for release

	locked  func(clock.Answer) bool // reports the answers that wait for unlock without delaying others
	unlock  chan struct{}
	heldErr error // error of the context that ended while a batch waited
}

func newFakeAnswerer() *fakeAnswerer {
	return &fakeAnswerer{accepted: map[int64]int{}, waiting: make(chan struct{}, 100)}
}

func (b *fakeAnswerer) Answer(ctx context.Context, answers []clock.Answer, done func(int, error)) {
	if b.release != nil {
		b.waiting <- struct{}{}
		select {
		case <-b.release:
		case <-ctx.Done():
			b.mu.Lock()
			b.heldErr = ctx.Err()
			b.mu.Unlock()
		}
	}
	b.mu.Lock()
	b.batches = append(b.batches, len(answers))
	locked := b.locked
	b.mu.Unlock()
	for i, a := range answers {
		if locked != nil && locked(a) {
			go func() {
				select {
				case <-b.unlock:
				case <-ctx.Done():
				}
				done(i, b.apply(ctx, a))
			}()
			continue
		}
		done(i, b.apply(ctx, a))
	}
}

func (b *fakeAnswerer) apply(ctx context.Context, a clock.Answer) (err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ctx.Err() != nil {
		err = clock.Unconfirmed(ctx.Err())
	} else if b.judge != nil {
		err = b.judge(a)
	}
	if err == nil {
		b.accepted[a.Ring.AlarmID]++
	}
	return err
}

func (b *fakeAnswerer) contextErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.heldErr
}

func (b *fakeAnswerer) setJudge(judge func(clock.Answer) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.judge = judge
}

// count returns the number of alarms with an accepted answer.
func (b *fakeAnswerer) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.accepted)
}

// runAnswers starts a consumer of answers, and returns it with a function that stops it.
func runAnswers(
	tb testing.TB, cfg config, to Answerer, out *bytes.Buffer, changes ...func(*Answers),
) (a *Answers, stop func()) {
	tb.Helper()
	handler := slog.Handler(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	if out != nil {
		handler = slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	a = NewAnswers(cfg.deps(tb, slog.New(handler)), cfg.queue, cfg.prefetch, to)
	for _, change := range changes {
		change(a)
	}
	stop = rabbittest.Background(tb, a.Run)
	tb.Cleanup(stop)
	return a, stop
}

func (a *Answers) counted(kind, result string) float64 {
	return testutil.ToFloat64(a.s.Metrics.answers.WithLabelValues(kind, result))
}

func TestAnswersAreCountedByKindAndResult(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	answerer, out := newFakeAnswerer(), new(bytes.Buffer)
	var got []clock.Answer
	results := map[int64]error{
		1: nil, 2: &clock.Error{Kind: clock.ErrNotFound, Detail: "no such ring"},
		3: &clock.Error{Kind: clock.ErrConflict, Detail: "stale ring"},
		4: &clock.Error{Kind: clock.ErrInvalid, Detail: "delay out of range"},
	}
	answerer.judge = func(a clock.Answer) error {
		got = append(got, a)
		return results[a.Ring.AlarmID]
	}
	for i, kind := range []string{"alarm.ack", "alarm.release", "alarm.bury", "alarm.touch"} {
		b.PublishAnswer(amqp.Publishing{
			Type: kind, AppId: "shop", Body: []byte("SECRET"),
			Headers: headers{"x-message-id": fmt.Sprintf("%d.1.1", i+1),
				"x-delay": []any{int8(1), int16(1), int32(1), "1"}[i], "x-reason": "why"},
		})
	}
	for _, d := range malformed {
		b.PublishAnswer(amqp.Publishing{Type: d.Type, CorrelationId: d.CorrelationId, Headers: d.Headers,
			Body: []byte("SECRET")})
	}
	b.Ack(9)
	a, stop := runAnswers(t, configOf(b), answerer, out)
	rabbittest.Eventually(t, 5*time.Second, "the last answer", func() bool { return answerer.count() == 2 })
	stop()
	if n := b.QueuedAnswers(); n != 0 {
		t.Errorf("%d answers are still in the queue", n)
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
		{"ack", "accepted", 2}, {"release", "not_found", 1}, {"bury", "conflict", 1}, {"touch", "invalid", 1},
		{"unknown", "malformed", len(malformed)},
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

// While the service is not available, answers return to the queue. Later each is applied once, also with malformed
// messages between them.
func TestAnswersAreAppliedOnceTheServiceIsBack(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	answerer := newFakeAnswerer()
	down := map[int]error{
		0: &clock.Error{Kind: clock.ErrUnavailable, Detail: "no database", RetryAfter: 50 * time.Millisecond},
		1: &clock.Error{Kind: clock.ErrUnconfirmed, Detail: "who knows", RetryAfter: 20 * time.Millisecond},
		2: nil, // every third answer is applied
	}
	answerer.judge = func(a clock.Answer) error { return down[int(a.Ring.AlarmID)%3] }
	const n = 1500
	for i := range n {
		b.Ack(i + 1)
		if i%100 == 0 {
			b.PublishAnswer(amqp.Publishing{Type: "no answer"}) // acked at once, although others of the batch are requeued
		}
	}
	a, stop := runAnswers(t, configOf(b), answerer, nil)
	rabbittest.Eventually(t, 10*time.Second, "answers were requeued several times",
		func() bool { return a.counted("ack", "requeued") > 1500 })
	answerer.setJudge(nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied", func() bool { return answerer.count() == n })
	stop()
	if m := a.counted("unknown", "malformed"); m != n/100 {
		t.Errorf("%v malformed, want %d", m, n/100)
	}
	// Answers whose acks did not leave before the end come again, in the next run. On a machine that is not busy there
	// are none.
	const runs = 5
	for run := 0; !b.AnswersStayAway(); run++ {
		if run == runs {
			t.Fatalf("answers are in the queue again after %d runs", runs)
		}
		_, stop = runAnswers(t, configOf(b), answerer, nil)
		rabbittest.Eventually(t, 10*time.Second, "the queue is empty", func() bool { return b.QueuedAnswers() == 0 })
		stop()
	}
}

// The end does not wait for the pause before a requeue. Answers that were not applied are in the queue again.
func TestUnappliedAnswersStayInTheQueueAtTheEnd(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	answerer := newFakeAnswerer()
	answerer.judge = func(a clock.Answer) error {
		if a.Ring.AlarmID == 3 {
			return nil
		}
		if a.Ring.AlarmID == 4 {
			return errors.New("a kind that is not known")
		}
		return &clock.Error{Kind: clock.ErrUnavailable, Detail: "no database", RetryAfter: time.Hour}
	}
	for i := range 5 {
		b.Ack(i + 1)
	}
	a, stop := runAnswers(t, configOf(b), answerer, nil, func(a *Answers) { a.longestPause = time.Hour })
	rabbittest.Eventually(t, 5*time.Second, "an answer is requeued",
		func() bool { return a.counted("ack", "requeued") > 0 })
	stop() // does not wait for the pause of an hour
	rabbittest.Eventually(t, 5*time.Second, "the other answers are in the queue again",
		func() bool { return b.QueuedAnswers() == 5-answerer.count() })
	if answerer.count() > 1 {
		t.Errorf("accepted %v", answerer.accepted)
	}
}

// The end waits for taken answers, and takes no others.
func TestRunSettlesTakenAnswersBeforeItEnds(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	cfg := configOf(b)
	cfg.prefetch = 10
	answerer := newFakeAnswerer()
	answerer.release = make(chan struct{})
	for i := range 50 {
		b.Ack(i + 1)
	}
	_, stop := runAnswers(t, cfg, answerer, nil)
	<-answerer.waiting
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop()
	}()
	select {
	case <-ended:
		t.Fatal("the end did not wait for the answers in flight")
	case <-time.After(300 * time.Millisecond):
	}
	close(answerer.release)
	<-ended
	n := answerer.count()
	if n < 1 || n > 10 {
		t.Errorf("%d answers were applied, with a prefetch of 10", n)
	}
	rabbittest.Eventually(t, 5*time.Second, "the other answers stay in the queue",
		func() bool { return b.QueuedAnswers() == 50-n })
}

// The end waits at most answerDrain for a hanging call. The answer stays in the queue.
func TestHangingAnswersDoNotHoldUpTheEnd(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	answerer := newFakeAnswerer()
	answerer.release = make(chan struct{})
	b.Ack(1)
	_, stop := runAnswers(t, configOf(b), answerer, nil)
	<-answerer.waiting
	stop()
	if !errors.Is(answerer.contextErr(), context.Canceled) {
		t.Errorf("the context of the answers ended with %v, not by the end of Run", answerer.contextErr())
	}
	rabbittest.Eventually(t, 5*time.Second, "the answer stays in the queue",
		func() bool { return b.QueuedAnswers() == 1 })
}

func TestNodesShareAnswersAndLoseNoneOverCuts(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	p, via := rabbittest.ProxyTo(t, b.URL)
	cut := configOf(b)
	cut.url = via
	answerers := []*fakeAnswerer{newFakeAnswerer(), newFakeAnswerer(), newFakeAnswerer()}
	var stops []func()
	for i, answerer := range answerers {
		cfg := configOf(b)
		if i == 0 {
			cfg = cut
		}
		cfg.prefetch = 20
		_, stop := runAnswers(t, cfg, answerer, nil)
		stops = append(stops, stop)
	}
	all := func() int {
		seen := map[int64]bool{}
		for _, answerer := range answerers {
			answerer.mu.Lock()
			for id := range answerer.accepted {
				seen[id] = true
			}
			answerer.mu.Unlock()
		}
		return len(seen)
	}
	const n = 6000
	for i := range n {
		b.Ack(i + 1)
		if i%1000 == 500 {
			p.Cut()
		}
	}
	rabbittest.Eventually(t, 20*time.Second, "all answers", func() bool { return all() == n })
	for i, answerer := range answerers {
		if answerer.count() == 0 {
			t.Errorf("consumer %d got no answer", i)
		}
	}
	for _, stop := range stops {
		stop()
	}
	if left := b.QueuedAnswers(); left != 0 {
		t.Errorf("%d answers are still in the queue", left)
	}
}

func TestAnswersAreSubmittedInBatches(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	const n = 10_000
	for i := range n {
		b.Ack(i + 1)
	}
	rabbittest.Eventually(t, 10*time.Second, "all answers are in the queue",
		func() bool { return b.QueuedAnswers() == n })
	answerer := newFakeAnswerer()
	began := time.Now()
	runAnswers(t, configOf(b), answerer, nil)
	rabbittest.Eventually(t, 30*time.Second, "all answers", func() bool { return answerer.count() == n })
	t.Logf("%.0f answers a second in %d batches", n/time.Since(began).Seconds(), len(answerer.batches))
	if len(answerer.batches) > n/2 { // the exact number depends on the speeds of broker and answerer
		t.Errorf("%d batches", len(answerer.batches))
	}
}

// A waiting answer delays no other answer. The others are settled before it, and the broker sends more.
func TestSlowAnswerDelaysNoOther(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	cfg := configOf(b)
	cfg.prefetch = 10
	answerer := newFakeAnswerer()
	answerer.locked, answerer.unlock = func(a clock.Answer) bool { return a.Ring.AlarmID%20 == 1 }, make(chan struct{})
	const n = 100
	for i := range n {
		b.Ack(i + 1)
	}
	a, stop := runAnswers(t, cfg, answerer, nil)
	rabbittest.Eventually(t, 30*time.Second, "the other answers are applied",
		func() bool { return answerer.count() == n-n/20 })
	stop() // waits answerDrain for the slow answers, which then go back to the queue
	rabbittest.Eventually(t, 30*time.Second, "the other answers are acked",
		func() bool { return b.QueuedAnswers() == n/20 })
	if accepted := a.counted("ack", "accepted"); accepted != n-n/20 {
		t.Errorf("%v accepted", accepted)
	}
	close(answerer.unlock)
	runAnswers(t, cfg, answerer, nil)
	rabbittest.Eventually(t, 30*time.Second, "the slow answers are applied, too",
		func() bool { return answerer.count() == n })
	for id, times := range answerer.accepted {
		if times != 1 {
			t.Errorf("answer of alarm %d was applied %d times", id, times)
		}
	}
}

// The bodies of answers take no memory, whatever their size and number, because they are read and dropped.
func TestBodiesOfAnswersTakeNoMemory(t *testing.T) {
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, amqp.Table{amqp.QueueTypeArg: "classic"})
	const n, size = 60, 4 << 20
	body := make([]byte, size)
	for i := range n {
		b.PublishAnswer(amqp.Publishing{Type: "alarm.ack", CorrelationId: fmt.Sprintf("%d.1.1", i+1), Body: body})
	}
	b.PublishAnswer(amqp.Publishing{Type: "alarm.ack", CorrelationId: "999.1.1",
		Headers: headers{"x-reason": strings.Repeat("x", 2*wire.MaxHeader)}})
	b.Ack(n + 1)
	answerer := newFakeAnswerer()
	answerer.locked, answerer.unlock = func(clock.Answer) bool { return true }, make(chan struct{})
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := held()
	a, _ := runAnswers(t, configOf(b), answerer, nil)
	taken := func() (n int) {
		answerer.mu.Lock()
		defer answerer.mu.Unlock()
		for _, size := range answerer.batches {
			n += size
		}
		return n
	}
	rabbittest.Eventually(t, time.Minute, "all answers are taken", func() bool { return taken() == n+1 })
	after := held()
	t.Logf("%d answers of %d MiB in flight hold %d KiB", n, size>>20, (int64(after)-int64(before))>>10)
	if after > before+16<<20 {
		t.Errorf("%d answers in flight hold %d MiB", n, (after-before)>>20)
	}
	close(answerer.unlock)
	rabbittest.Eventually(t, 30*time.Second, "all answers are applied", func() bool { return answerer.count() == n+1 })
	if m := a.counted("unknown", "malformed"); m != 1 {
		t.Errorf("%v malformed, want 1: the answer with too large headers", m)
	}
}

// A message whose headers the library would not read stops no answer: it is no answer, and is acked.
func TestUnreadableHeadersStopNoAnswers(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	for _, headers := range rabbittest.Unreadable() {
		b.PublishAnswer(amqp.Publishing{Type: "alarm.ack", CorrelationId: "999.1.1", Headers: headers})
	}
	b.Ack(1)
	answerer := newFakeAnswerer()
	a, stop := runAnswers(t, configOf(b), answerer, nil)
	rabbittest.Eventually(t, 30*time.Second, "the answer is applied", func() bool { return answerer.count() == 1 })
	rabbittest.Eventually(t, 30*time.Second, "the others are refused",
		func() bool { return a.counted("unknown", "malformed") == 3 })
	stop()
	if n := b.QueuedAnswers(); n != 0 {
		t.Errorf("%d messages are left in the queue", n)
	}
}

// RabbitMQ 3.10 does not tell the consumer of a quorum queue that the queue is deleted.
func TestQueueOfAnswersMayBeDeclaredAgain(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	answerer := newFakeAnswerer()
	runAnswers(t, configOf(b), answerer, nil, func(a *Answers) { a.s.silence = 20 * time.Millisecond })
	b.Ack(1)
	rabbittest.Eventually(t, time.Minute, "the first answer is applied", func() bool { return answerer.count() == 1 })
	b.Remove(b.AnswerQueue())
	b.DeclareAnswers()
	b.Ack(2)
	rabbittest.Eventually(t, time.Minute, "the second answer is applied", func() bool { return answerer.count() == 2 })
}

// The broker adds headers at a redelivery, and a copy adds a header and a delivery mode. Neither makes an accepted
// answer too large.
func TestAnswersNearTheBoundAreRefusedAtOnceOrApplied(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]amqp.Table{"requeued": rabbittest.Quorum, "copied": rabbittest.Limited(nil)} {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, args)
			answerer := newFakeAnswerer()
			fits, submitted, n := map[int64]bool{}, map[int64]bool{}, 0
			answerer.judge = func(a clock.Answer) error {
				submitted[a.Ring.AlarmID] = true
				return away
			}
			for size := wire.MaxHeader - 92; size <= wire.MaxHeader+8; size++ {
				n++
				id := int64(1000 + n)
				sent := amqp.Publishing{Type: "alarm.ack", CorrelationId: fmt.Sprintf("%d.1.1", id),
					ContentType: "text/plain", ContentEncoding: "none"}
				used := wire.ContentHeaderSize + 1 + len(sent.Type) + 1 + len(sent.CorrelationId) + 1 + len(sent.ContentType) + 1 + len(sent.ContentEncoding)
				grows := 0
				if n%2 == 0 {
					sent.DeliveryMode = amqp.Persistent
					used++
				} else {
					grows++
				}
				if n%3 == 0 {
					sent.UserId = "guest"
					used += 1 + len(sent.UserId)
					grows += len("x-by") + 1 + 4
				}
				used += 4 + 1 + len("mine") + 1 + 4 // the table, and its header
				sent.Headers = headers{"mine": strings.Repeat("m", size-used)}
				b.PublishAnswer(sent)
				if size+grows <= wire.MaxHeader {
					fits[id] = true
				}
			}
			a, stop := runAnswers(t, configOf(b), answerer, nil)
			for range 2 {
				a.attempts(t, len(fits))
			}
			answerer.setJudge(nil)
			rabbittest.Eventually(t, 20*time.Second, "the accepted answers are applied",
				func() bool { return answerer.count() >= len(fits) })
			stop()
			if !maps.Equal(submitted, fits) {
				t.Errorf("submitted are %v, want %v", submitted, fits)
			}
			if m := a.counted("unknown", "malformed"); m != float64(n-len(fits)) {
				t.Errorf("%v malformed, want %d", m, n-len(fits))
			}
			if confirmed := a.copies(resultCopyConfirmed); name == "copied" && confirmed < float64(len(fits)) {
				t.Errorf("%v copies", confirmed)
			}
		})
	}
}

func TestAnswerQueueWithOtherArgumentsIsUsedWithAWarning(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, nil) // a classic queue
	answerer := newFakeAnswerer()
	b.Ack(1)
	cfg := configOf(b)
	runAnswers(t, cfg, answerer, nil)
	rabbittest.Eventually(t, 5*time.Second, "the answer", func() bool { return answerer.count() == 1 })
	if w := cfg.warnings.all(); len(w) != 1 ||
		!strings.Contains(w[0], b.AnswerQueue()+`" exists with other arguments`) {
		t.Errorf("warnings %q", w)
	}
}

// If the queue is deleted, the consumer declares it again. Others can still declare it with the same arguments.
func TestDeletedAnswerQueueIsDeclaredAgain(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Quorum)
	answerer := newFakeAnswerer()
	b.Ack(1)
	cfg := configOf(b)
	runAnswers(t, cfg, answerer, nil)
	rabbittest.Eventually(t, 5*time.Second, "the answer", func() bool { return answerer.count() == 1 })
	b.Remove(b.AnswerQueue())
	rabbittest.Eventually(t, 5*time.Second, "the answer", func() bool {
		b.Ack(2)
		return answerer.count() == 2
	})
	b.DeclareAnswers()
	rabbittest.Eventually(t, 5*time.Second, "no warnings", func() bool { return cfg.warnings.all() == nil })
}

func TestMajorReadsBrokerVersions(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{"3.10.8": 3, "4.0.0-rc.2": 4, "12.1": 12, "": 0, "x.y": 0} {
		if got := major(version); got != want {
			t.Errorf("%q is %d, want %d", version, got, want)
		}
	}
	if major("") != 0 {
		t.Error("no properties")
	}
}
