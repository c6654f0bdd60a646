package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
)

// away is the error of an Answerer whose database is away.
var away = &clock.Error{Kind: clock.ErrUnavailable, Detail: "no database", RetryAfter: 10 * time.Millisecond}

func databaseAway(clock.Answer) error { return away }

func (a *Answers) copies(result string) float64 {
	return testutil.ToFloat64(a.s.Metrics.answerCopies.WithLabelValues(result))
}

// attempts waits until each of n answers was submitted more often than the queue's delivery limit allows.
func (a *Answers) attempts(t *testing.T, n int) {
	t.Helper()
	want := a.counted("ack", "requeued") + float64(10*n)
	rabbittest.Eventually(t, 20*time.Second, "each answer was submitted many times",
		func() bool { return a.counted("ack", "requeued") >= want })
}

// A requeue counts against the delivery limit of the queue, and the broker drops an answer over the limit. A copy
// starts at zero. A queue without a limit of its own has the default of its broker: none on RabbitMQ 3, 20 on RabbitMQ
// 4.
func TestAnswersOutliveADeliveryLimit(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]amqp.Table{"default": rabbittest.Quorum, "limit 2": rabbittest.Limited(nil)} {
		t.Run(name, func(t *testing.T) {
			b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, args)
			answerer := newFakeAnswerer()
			answerer.judge = databaseAway
			const n = 50
			for i := range n {
				b.Ack(i + 1)
			}
			a, stop := runAnswers(t, configOf(b), answerer, nil)
			for range 4 { // more attempts than the default limit
				a.attempts(t, n)
			}
			answerer.setJudge(nil)
			rabbittest.Eventually(t, 20*time.Second, "all answers are applied",
				func() bool { return answerer.count() == n })
			stop()
			t.Logf("%v copies confirmed, %v failed", a.copies(resultCopyConfirmed), a.copies(resultCopyFailed))
			if name == "limit 2" && a.copies(resultCopyConfirmed) == 0 {
				t.Error("no copies")
			}
		})
	}
}

// A stream delivers each message to every node, so every node would copy each copy.
func TestAnswersFromAStreamAreNotCopied(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, amqp.Table{amqp.QueueTypeArg: amqp.QueueTypeStream})
	answerers, nodes := []*fakeAnswerer{newFakeAnswerer(), newFakeAnswerer()}, []*Answers{}
	for _, answerer := range answerers {
		answerer.judge = databaseAway
		a, _ := runAnswers(t, configOf(b), answerer, nil)
		nodes = append(nodes, a)
	}
	next := 0 // a consumer of a stream gets only messages that are published after its start
	rabbittest.Eventually(t, 20*time.Second, "both nodes consume", func() bool {
		next++
		b.Ack(next)
		return nodes[0].counted("ack", "requeued") > 0 && nodes[1].counted("ack", "requeued") > 0
	})
	const n = 10
	for i := range n {
		b.Ack(next + i + 1)
	}
	for _, a := range nodes {
		a.attempts(t, n)
		if copies := a.copies(resultCopyConfirmed) + a.copies(resultCopyFailed); copies != 0 {
			t.Errorf("%v copies", copies)
		}
	}
	applied := func(answerer *fakeAnswerer) (count int) {
		answerer.mu.Lock()
		defer answerer.mu.Unlock()
		for i := range n {
			count += answerer.accepted[int64(next+i+1)]
		}
		return count
	}
	for _, answerer := range answerers {
		answerer.setJudge(nil)
	}
	for _, answerer := range answerers {
		rabbittest.Eventually(t, 20*time.Second, "the node applies the answers",
			func() bool { return applied(answerer) == n })
	}
}

// runCopier runs a copier for queue. copyOne hands it an answer and returns the action for the original.
func runCopier(t *testing.T, a *Answers, queue string) (copyOne func() action) {
	t.Helper()
	reports := make(chan settlement, 1)
	rules := a.copyRules()
	rules.message = func(s *settlement) (string, string,
		amqp.Publishing) {
		return "", queue, copyOf(&s.delivery.Delivery)
	}
	c := newCopier(&a.s, rules, 1, func(s settlement) { reports <- s })
	t.Cleanup(rabbittest.Background(t, func(ctx context.Context) error {
		c.run(ctx)
		return nil
	}))
	return func() action {
		c.requests <- settlement{delivery: &incoming{Delivery: amqp.Delivery{Type: "alarm.ack", CorrelationId: "1.1.1"}}, action: actionPutBack}
		return (<-reports).action
	}
}

// A broker acks a returned copy, too.
func TestReturnedCopyIsNotConfirmed(t *testing.T) {
	t.Parallel()
	cfg := configOf(rabbittest.Shared(t))
	a := NewAnswers(cfg.deps(t, slog.New(slog.DiscardHandler)), cfg.queue, cfg.prefetch, nil)
	if got := runCopier(t, a, rabbittest.Unique("missing"))(); got != actionResubmit {
		t.Errorf("the original of a returned copy gets the action %d, want %d", got, actionResubmit)
	}
}

// A channel that nacks may know only a dead leader of the queue, and would nack every further copy.
func TestNackedOrReturnedCopyEndsItsChannel(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(b *rabbittest.Broker, queue string) (repair func()){
		"nacked": func(b *rabbittest.Broker, queue string) func() {
			_, err := b.Ch.QueueDeclare(queue, true, false, false, false,
				amqp.Table{"x-max-length": 0, "x-overflow": "reject-publish"})
			b.Must(err)
			return func() { b.Remove(queue) }
		},
		"returned": func(*rabbittest.Broker, string) func() { return func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			b, queue := rabbittest.Shared(t), rabbittest.Unique("answers")
			repair := prepare(b, queue)
			cfg := configOf(b)
			a := NewAnswers(cfg.deps(t, slog.New(slog.DiscardHandler)), cfg.queue, cfg.prefetch, nil)
			copyOne := runCopier(t, a, queue)
			if got := copyOne(); got != actionResubmit {
				t.Fatalf("the original gets the action %d, want %d", got, actionResubmit)
			}
			repair()
			_, err := b.Ch.QueueDeclare(queue, true, false, false, false, rabbittest.Quorum)
			b.Must(err)
			t.Cleanup(func() { b.Remove(queue) })
			rabbittest.Eventually(t, 20*time.Second, "a copy is confirmed",
				func() bool { return copyOne() == actionAckCopied })
			if dials := dialsTo(a.s.Broker, roleCopies, rabbittest.HostOf(t, b.URL)); dials < 2 {
				t.Errorf("the copier kept its connection: %v dials", dials)
			}
		})
	}
}

// A host that takes copies and confirms none holds them for WriteTimeout. Then the copier goes to the next host.
func TestHostThatConfirmsNoCopyIsLeft(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Limited(nil))
	p, via := rabbittest.ProxyTo(t, b.URL)
	p.DropAcks.Store(true)
	cfg := configOf(b)
	cfg.url, cfg.writeTimeout = rabbittest.WithHosts(t, b.URL, rabbittest.HostOf(t, via), rabbittest.HostOf(t, b.URL)), time.Second
	answerer := newFakeAnswerer()
	answerer.judge = databaseAway
	const n = 20
	for i := range n {
		b.Ack(i + 1)
	}
	a, stop := runAnswers(t, cfg, answerer, nil)
	rabbittest.Eventually(t, 20*time.Second, "the next host confirms copies",
		func() bool { return a.copies(resultCopyConfirmed) >= n })
	if dialsTo(a.s.Broker, roleCopies, rabbittest.HostOf(t, via)) == 0 {
		t.Error("the first host was not tried")
	}
	answerer.setJudge(nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied", func() bool { return answerer.count() == n })
	stop()
}

// Without a confirm, each answer waits on its node, and the queue gets few further copies.
func TestAnswersWithoutConfirmedCopiesAreAppliedByTheirNode(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Limited(nil))
	p, via := rabbittest.ProxyTo(t, b.URL)
	p.DropAcks.Store(true)
	cfg := configOf(b)
	cfg.url, cfg.writeTimeout = via, 100*time.Millisecond
	answerer := newFakeAnswerer()
	answerer.judge = databaseAway
	const n = 20
	for i := range n {
		b.Ack(i + 1)
	}
	a, stop := runAnswers(t, cfg, answerer, nil)
	rabbittest.Eventually(t, 20*time.Second, "each answer failed several times",
		func() bool { return a.copies(resultCopyFailed) >= 5*n })
	answerer.setJudge(nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied", func() bool { return answerer.count() == n })
	rabbittest.Eventually(t, 20*time.Second, "the queue is empty", func() bool { return b.QueuedAnswers() == 0 })
	stop()
	dials, times := dialsTo(a.s.Broker, roleCopies, rabbittest.HostOf(t, via)), 0
	for _, accepted := range answerer.accepted {
		times += accepted
	}
	// the first batches have up to n copies; each later connection brings one
	if most := 2*n + int(dials); times > most {
		t.Errorf("%d answers were applied %d times, want at most %d after %v connections", n, times, most, dials)
	}
	t.Logf("%d answers were applied %d times after %v connections", n, times, dials)
}

// The queue is full and rejects copies. The originals stay on the node, which applies them later.
func TestAnswersWithoutRoomForCopiesAreAppliedByTheirNode(t *testing.T) {
	t.Parallel()
	full := rabbittest.Limited(amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, full)
	cfg := configOf(b)
	cfg.prefetch = 3
	answerer := newFakeAnswerer()
	answerer.judge = databaseAway
	a, stop := runAnswers(t, cfg, answerer, nil)
	n := cfg.prefetch + 1 // the last one fills the queue
	b.Must(b.Ch.Confirm(false))
	for accepted := 0; accepted < n; { // a copy may take the room for a moment
		confirm, err := b.Ch.PublishWithDeferredConfirm("", b.AnswerQueue(), true, false, amqp.Publishing{
			Type: "alarm.ack", CorrelationId: fmt.Sprintf("%d.1.1", accepted+1), DeliveryMode: amqp.Persistent,
		})
		b.Must(err)
		if confirm.Wait() {
			accepted++
		}
	}
	rabbittest.Eventually(t, 20*time.Second, "copies failed", func() bool { return a.copies(resultCopyFailed) > 0 })
	a.attempts(t, n)
	answerer.setJudge(nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied", func() bool { return answerer.count() == n })
	stop()
	rabbittest.Eventually(t, 20*time.Second, "the queue is empty", func() bool { return b.QueuedAnswers() == 0 })
}

// Each cut ends the connection of the copies, too, with copies in doubt. Only the cuts themselves count against the
// delivery limit.
func TestAnswersOutliveADeliveryLimitOverCuts(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 20})
	p, via := rabbittest.ProxyTo(t, b.URL)
	cfg := configOf(b)
	cfg.url = via
	answerer := newFakeAnswerer()
	answerer.judge = databaseAway
	const n, cuts = 200, 10
	for i := range n {
		b.Ack(i + 1)
	}
	a, stop := runAnswers(t, cfg, answerer, nil)
	for range cuts {
		a.attempts(t, n/2)
		p.Cut()
	}
	for range 4 { // more attempts than the limit
		a.attempts(t, n)
	}
	answerer.setJudge(nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied", func() bool { return answerer.count() == n })
	rabbittest.Eventually(t, 20*time.Second, "the queue is empty", func() bool { return b.QueuedAnswers() == 0 })
	stop()
	t.Logf("%v copies confirmed, %v failed", a.copies(resultCopyConfirmed), a.copies(resultCopyFailed))
}

// A user may only read. Then clockd can neither declare the queue, which may have a delivery limit, nor publish copies.
func TestAnswersOfAUserWhoMayOnlyReadAreAppliedByTheirNode(t *testing.T) {
	b := rabbittest.OpenWithAnswers(t, rabbittest.PrivateBroker(t), rabbittest.Limited(nil))
	user := rabbittest.Unique("reader")
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "add_user", user, "secret")
	rabbittest.RestoreAfter(t, "ctl", "rabbitmq", "delete_user", user)
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "set_permissions", user, "^$", "^$", ".*")
	cfg := configOf(b)
	u, err := url.Parse(b.URL)
	b.Must(err)
	u.User = url.UserPassword(user, "secret")
	cfg.url = u.String()
	answerer := newFakeAnswerer()
	answerer.judge = databaseAway
	const n = 20
	for i := range n {
		b.Ack(i + 1)
	}
	a, stop := runAnswers(t, cfg, answerer, nil)
	a.attempts(t, n)
	if a.copies(resultCopyConfirmed) != 0 {
		t.Error("a copy is confirmed")
	}
	dials := dialsTo(a.s.Broker, roleCopies, a.s.Broker.Hosts[0].Name())
	if dials == 0 || dials > a.copies(resultCopyFailed)/2 {
		t.Errorf("%v connections for %v copies", dials, a.copies(resultCopyFailed))
	}
	answerer.setJudge(nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied", func() bool { return answerer.count() == n })
	stop()
	rabbittest.Eventually(t, 20*time.Second, "the queue is empty", func() bool { return b.QueuedAnswers() == 0 })
}

// A broker with an alarm blocks connections that publish. Answers wait meanwhile, and no answer that the database takes
// has to wait.
func TestMemoryAlarmStopsCopiesButNoAcks(t *testing.T) {
	b := rabbittest.OpenWithAnswers(t, rabbittest.PrivateBroker(t), rabbittest.Limited(nil))
	answerer := newFakeAnswerer()
	answerer.judge = databaseAway
	const n = 50
	for i := range n {
		b.Ack(i + 1)
	}
	cfg := configOf(b)
	cfg.prefetch = n / 2 // answers that wait leave no place for others
	a, stop := runAnswers(t, cfg, answerer, nil)
	rabbittest.Eventually(t, 5*time.Second, "the first copies",
		func() bool { return a.copies(resultCopyConfirmed) > 0 })
	rabbittest.SetMemoryAlarm(t, true)
	rabbittest.Eventually(t, 5*time.Second, "copies fail", func() bool { return a.copies(resultCopyFailed) > 0 })
	before := a.copies(resultCopyConfirmed)
	a.attempts(t, n)
	if more := a.copies(resultCopyConfirmed) - before; more > 1 { // a blocked connection confirms none; the counters are read one by one
		t.Errorf("%v copies were confirmed during the alarm", more)
	}
	answerer.setJudge(nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied during the alarm",
		func() bool { return answerer.count() == n })
	answerer.setJudge(databaseAway)
	rabbittest.SetMemoryAlarm(t, false)
	b.Redial() // the alarm may have blocked the test's own connection
	const more = 20
	for i := range more {
		b.Ack(n + i + 1)
	}
	before = a.copies(resultCopyConfirmed)
	rabbittest.Eventually(t, 20*time.Second, "copies are confirmed after the alarm",
		func() bool { return a.copies(resultCopyConfirmed) >= before+10*more })
	answerer.setJudge(nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied after the alarm",
		func() bool { return answerer.count() == n+more })
	stop()
}

// The end of Run does not wait for the pause of an answer, nor for its copy.
func TestEndDoesNotWaitForCopies(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Limited(nil))
	answerer := newFakeAnswerer()
	answerer.judge = databaseAway
	const n = 20
	for i := range n {
		b.Ack(i + 1)
	}
	a, stop := runAnswers(t, configOf(b), answerer, nil)
	rabbittest.Eventually(t, 5*time.Second, "the first copies",
		func() bool { return a.copies(resultCopyConfirmed) > 0 })
	stop()
	answerer.setJudge(nil)
	runAnswers(t, configOf(b), answerer, nil)
	rabbittest.Eventually(t, 20*time.Second, "all answers are applied by the next run",
		func() bool { return answerer.count() == n })
}

// fullAnswer is an answer with every property, and with a header of every type.
func fullAnswer() amqp.Publishing {
	return amqp.Publishing{
		Type: "alarm.bury", CorrelationId: "4711.3.2", ContentType: "text/plain", ContentEncoding: "utf-8",
		DeliveryMode: amqp.Persistent,
		Priority:     3, ReplyTo: "me", Expiration: "600000", MessageId: "mine", Timestamp: time.Unix(1_700_000_000, 0),
		UserId: "guest",
		Headers: amqp.Table{
			"x-delay": int64(7), "x-reason": strings.Repeat("r", 3000), "true": true, "byte": byte(200),
			"int8": int8(-1), "int16": int16(-2),
			"uint16": uint16(60_000), "int32": int32(-3), "uint32": uint32(4_000_000_000), "int64": int64(-4),
			"float32": float32(1.5),
			"float64": 2.5, "decimal": amqp.Decimal{Scale: 2, Value: 314}, "text": "text", "bytes": []byte{0, 255},
			"none": nil,
			"time": time.Unix(1_700_000_000, 0), "list": []any{int32(1), "two"}, "table": amqp.Table{"inner": int64(1)},
			strings.Repeat("n", 128): "long name",
		},
	}
}

// A copy keeps what the application wrote, and goes to the queue of answers only.
func TestCopyKeepsTheAnswer(t *testing.T) {
	t.Parallel()
	b := rabbittest.OpenWithAnswers(t, rabbittest.SharedURL, rabbittest.Limited(nil))
	other := b.Queue("other", nil)
	sent := fullAnswer()
	sent.Headers["CC"] = []any{other}
	b.PublishAnswer(sent)
	b.Take(other, 1)
	answerer := newFakeAnswerer()
	var judged []clock.Answer
	answerer.judge = func(a clock.Answer) error {
		judged = append(judged, a)
		return away
	}
	a, stop := runAnswers(t, configOf(b), answerer, nil)
	rabbittest.Eventually(t, 5*time.Second, "several copies", func() bool { return a.copies(resultCopyConfirmed) >= 5 })
	stop()
	for _, got := range judged {
		got.Reason, judged[0].Reason = got.Reason[:clock.MaxReason], judged[0].Reason[:clock.MaxReason]
		if got != judged[0] {
			t.Errorf("a copy is %+v, the original %+v", got, judged[0])
		}
	}
	if judged[0].By != "guest" {
		t.Errorf("the original is by %q", judged[0].By)
	}
	b.Channel()
	b.Empty(other)
	d := b.Take(b.AnswerQueue(), 1)[0]
	if d.DeliveryMode != amqp.Persistent || d.UserId != "" || d.Headers["x-by"] != "guest" ||
		d.Headers["x-reason"] != strings.Repeat("r", clock.MaxReason) {
		t.Errorf("the copy is %+v", d)
	}
	for _, name := range []string{"CC", "x-by", "x-reason", "x-delivery-count", "x-acquired-count"} { // the end redelivered the last copy
		delete(d.Headers, name)
		delete(sent.Headers, name)
	}
	if !reflect.DeepEqual(d.Headers, sent.Headers) {
		t.Errorf("the copy has the headers %v\nthe original %v", d.Headers, sent.Headers)
	}
	got := []any{d.Type, d.CorrelationId, d.ContentType, d.ContentEncoding, d.Priority, d.ReplyTo, d.Expiration,
		d.MessageId, d.Timestamp.Unix(), d.AppId}
	want := []any{
		sent.Type, sent.CorrelationId, sent.ContentType, sent.ContentEncoding, sent.Priority, sent.ReplyTo,
		sent.Expiration, sent.MessageId,
		sent.Timestamp.Unix(), sent.AppId,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the copy has %v, the original %v", got, want)
	}
}

func TestCopyIsNotLargerThanTheAnswer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ d, want amqp.Table }{
		"headers of the broker": {
			headers{
				"x-delivery-count": int64(3), "x-acquired-count": int64(4), "x-death": []any{amqp.Table{}},
				"x-first-death-queue": "q",
				"x-last-death-reason": "expired", "x-received-from": []any{}, "x-opt-deaths": "", "CC": []any{"q"},
				"BCC": []any{"q"}, "x-mine": "1",
			},
			headers{"x-mine": "1"},
		},
		"long texts": {
			headers{"x-reason": []byte(strings.Repeat("r", 8000)), "x-by": strings.Repeat("b", 8000),
				"x-mine": strings.Repeat("m", 8000)},
			headers{"x-reason": strings.Repeat("r", 500), "x-by": strings.Repeat("b", 255),
				"x-mine": strings.Repeat("m", 8000)},
		},
		"short texts": {headers{"x-reason": "r", "x-by": []byte("b")}, headers{"x-reason": "r", "x-by": []byte("b")}},
		"other types": {headers{"x-reason": int32(1), "x-by": nil}, headers{"x-reason": int32(1), "x-by": nil}},
	} {
		if got := copyOf(&amqp.Delivery{Headers: test.d, AppId: "shop", UserId: "guest"}).Headers; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %.200v, want %.200v", name, got, test.want)
		}
	}
}
