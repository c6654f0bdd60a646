package rabbit

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
)

// sharedURL is the URL of the broker that the tests of all packages share. Tests use unique names for their exchanges
// and queues.
var sharedURL = cmp.Or(os.Getenv("CLOCKD_TEST_AMQP_URL"), "amqp://guest:guest@127.0.0.1:23672/")

func TestMain(m *testing.M) {
	code := m.Run()
	if ownBroker.dir != "" {
		if out, err := services("down", "--purge", "rabbitmq"); err != nil {
			fmt.Fprintf(os.Stderr, "stop the private broker: %v\n%s", err, out)
			code = max(code, 1)
		}
		_ = os.RemoveAll(ownBroker.dir)
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintf(os.Stderr, "goroutines leaked: %v\n", err)
		code = 1
	}
	os.Exit(code)
}

// ownBroker is a private broker for tests that block, stop or reconfigure it. The first test that needs it starts it.
var ownBroker struct {
	once     sync.Once
	dir, url string
	err      error
}

// privateBroker returns the URL of the private broker. Tests use it one after the other, and restore it at their end.
func privateBroker(tb testing.TB) string {
	tb.Helper()
	ownBroker.once.Do(func() {
		ownBroker.dir, ownBroker.err = os.MkdirTemp("", "clockd-rabbit-test") //nolint:usetesting // outlives the first test
		if ownBroker.err != nil {
			return
		}
		ownBroker.err = os.Chmod(ownBroker.dir, 0o755) // the broker runs as a different user
		if out, err := services("up", "rabbitmq"); err != nil {
			ownBroker.err = fmt.Errorf("start a private broker: %w\n%s", err, out)
			return
		}
		out, err := services("env")
		match := regexp.MustCompile(`CLOCKD_TEST_AMQP_URL='([^']+)'`).FindSubmatch(out)
		if err != nil || match == nil {
			ownBroker.err = fmt.Errorf("find the URL of the private broker: %w\n%s", err, out)
			return
		}
		ownBroker.url = string(match[1])
	})
	if ownBroker.err != nil {
		tb.Fatal(ownBroker.err)
	}
	return ownBroker.url
}

// services runs deploy/services for the private broker.
func services(args ...string) ([]byte, error) {
	cmd := exec.Command(filepath.Join("..", "..", "deploy", "services"), args...)
	cmd.Env = append(os.Environ(), "CLOCKD_SERVICES_DIR="+ownBroker.dir)
	return cmd.CombinedOutput()
}

// onPrivate runs deploy/services for the private broker, and fails the test if the command fails.
func onPrivate(tb testing.TB, args ...string) {
	tb.Helper()
	if out, err := services(args...); err != nil {
		tb.Fatalf("deploy/services %q: %v\n%s", args, err, out)
	}
}

// broker is a test's own connection to a broker, with an exchange for this test only.
type broker struct {
	tb       testing.TB
	url      string
	conn     *amqp.Connection
	ch       *amqp.Channel
	exchange string
}

func open(tb testing.TB, url string) *broker {
	tb.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		tb.Fatalf("no RabbitMQ for the tests (start it with \"make up\"): %v", err)
	}
	b := &broker{tb: tb, url: url, conn: conn, exchange: unique("clock")}
	b.channel()
	tb.Cleanup(func() {
		b.channel()
		if err := b.ch.ExchangeDelete(b.exchange, false, false); err != nil {
			tb.Errorf("delete exchange: %v", err)
		}
		_ = b.conn.Close()
	})
	return b
}

// redial connects again after the broker has died.
func (b *broker) redial() {
	b.tb.Helper()
	conn, err := amqp.Dial(b.url)
	b.must(err)
	b.conn = conn
	b.channel()
}

// shared opens the shared broker.
func shared(tb testing.TB) *broker {
	tb.Helper()
	return open(tb, sharedURL)
}

// channel opens a new channel, because a wanted error may have closed the last one.
func (b *broker) channel() {
	b.tb.Helper()
	ch, err := b.conn.Channel()
	b.must(err)
	b.ch = ch
}

func (b *broker) must(err error) {
	b.tb.Helper()
	if err != nil {
		b.tb.Fatal(err)
	}
}

// queue declares a queue and binds it for application. The end of the test deletes it.
func (b *broker) queue(application string, args amqp.Table) string {
	b.tb.Helper()
	name := unique("queue")
	_, err := b.ch.QueueDeclare(name, true, false, false, false, args)
	b.must(err)
	b.tb.Cleanup(func() { b.remove(name) })
	b.must(b.ch.QueueBind(name, application, b.exchange, false, nil))
	return name
}

func (b *broker) remove(queue string) {
	b.channel()
	if _, err := b.ch.QueueDelete(queue, false, false, false); err != nil {
		b.tb.Errorf("delete queue: %v", err)
	}
}

// quorum holds the arguments of a quorum queue.
var quorum = amqp.Table{"x-queue-type": "quorum"}

// take waits for n messages in queue and returns them.
func (b *broker) take(queue string, n int) []amqp.Delivery {
	b.tb.Helper()
	var got []amqp.Delivery
	eventually(b.tb, 10*time.Second, fmt.Sprintf("%d messages in the queue", n), func() bool {
		for len(got) < n {
			d, ok, err := b.ch.Get(queue, true)
			b.must(err)
			if !ok {
				return false
			}
			got = append(got, d)
		}
		return true
	})
	return got
}

// arrived takes all messages from queue and returns the number of messages for each message id.
func (b *broker) arrived(queue string) map[string]int {
	b.tb.Helper()
	n := map[string]int{}
	for {
		d, ok, err := b.ch.Get(queue, true)
		b.must(err)
		if !ok {
			return n
		}
		n[d.MessageId]++
	}
}

// empty fails if there is a message in queue.
func (b *broker) empty(queue string) {
	b.tb.Helper()
	if d, ok, err := b.ch.Get(queue, true); err != nil || ok {
		b.tb.Fatalf("queue is not empty: %q %v", d.MessageId, err)
	}
}

func unique(prefix string) string { return fmt.Sprintf("test-%s-%d-%d", prefix, os.Getpid(), next()) }

var next = func() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}()

// config returns a configuration for b with short intervals. Tests of a silent broker set ProbeTimeout.
func (b *broker) config() Config {
	cfg := DefaultConfig()
	cfg.URL, cfg.Exchange = b.url, b.exchange
	cfg.ConnectionName = "clockd test"
	cfg.ProbeInterval = 200 * time.Millisecond
	cfg.ProbeTimeout = hangGuard // so that a busy machine does not look like a silent broker
	cfg.BackoffMin, cfg.BackoffMax = 20*time.Millisecond, 200*time.Millisecond
	return cfg
}

// run starts a session that ends with the test.
func run(tb testing.TB, cfg Config) *Session {
	tb.Helper()
	return runWith(tb, cfg, Deps{})
}

// runWith is run with dependencies besides the log.
func runWith(tb testing.TB, cfg Config, deps Deps) *Session {
	tb.Helper()
	deps.Log = slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := New(cfg, deps)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("run: %v", err)
			}
		case <-time.After(hangGuard):
			tb.Error("run does not end")
		}
	})
	return s
}

// startUsable starts a session and waits until it is usable.
func startUsable(tb testing.TB, cfg Config) *Session {
	tb.Helper()
	s := run(tb, cfg)
	waitUsable(tb, s, 10*time.Second)
	return s
}

// hangGuard is the shortest timeout of a wait for an event that must come. No test judges the duration of the wait.
const hangGuard = time.Minute

// waitUsable waits until s is usable. It relies on the signals of Changed.
func waitUsable(tb testing.TB, s *Session, within time.Duration) {
	tb.Helper()
	waitUsableErr(tb, s, within, func(err error) bool { return err == nil })
}

// waitUnusable waits until s is not usable, and returns the reason.
func waitUnusable(tb testing.TB, s *Session, within time.Duration) error {
	tb.Helper()
	waitUsableErr(tb, s, within, func(err error) bool { return err != nil })
	return s.Usable()
}

func waitUsableErr(tb testing.TB, s *Session, within time.Duration, want func(error) bool) {
	tb.Helper()
	within = max(within, hangGuard)
	timeout := time.After(within)
	for !want(s.Usable()) {
		select {
		case <-s.Changed():
		case <-timeout:
			tb.Fatalf("not within %s; usable: %v", within, s.Usable())
		}
	}
}

// testMaxLate is the most late deliveries of the tests' lanes.
const testMaxLate = 4

// laneOf returns a lane that the end of the test closes.
func laneOf(tb testing.TB, s *Session) *lane {
	tb.Helper()
	l := newLane(s, testMaxLate)
	tb.Cleanup(func() {
		if err := l.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return l
}

// openAndDeliver tries to open the lane, like a worker before its claim, and then delivers. It extends the limits by
// the time of the opening.
func openAndDeliver(ctx context.Context, l ring.Lane, batch []clock.Ring, limits ring.Limits) []clock.Outcome {
	began := time.Now()
	_ = l.Open(ctx, len(batch)) // without a lane the rings are unsent
	if took := time.Since(began); limits.WriteBy.After(began) {
		limits.WriteBy, limits.ReplyBy = limits.WriteBy.Add(took), limits.ReplyBy.Add(took)
	}
	return l.Deliver(ctx, batch, limits)
}

// rings returns n rings of application.
func rings(application string, n int) []clock.Ring {
	rings := make([]clock.Ring, n)
	for i := range rings {
		rings[i] = clock.Ring{
			AlarmID: int64(next()), Key: clock.Key{Application: application, BusinessID: fmt.Sprintf("order %d", i)},
			Generation: 1, RingNo: 1, RingAt: 1_700_000_000_123, RungAt: 1_700_000_000_456, ClaimID: "claim",
			Payload: []byte(`{"n":1}`), PayloadKind: clock.JSON, ContentType: "application/json",
		}
	}
	return rings
}

// within returns limits from now on.
func within(write, reply time.Duration) ring.Limits {
	now := time.Now()
	return ring.Limits{WriteBy: now.Add(write), ReplyBy: now.Add(reply)}
}

// ampleLimits returns limits that a delivery keeps even on a busy machine.
func ampleLimits() ring.Limits { return within(20*time.Second, 30*time.Second) }

// shortLimits returns limits that end soon without a confirm. A busy machine may need long to write the rings.
func shortLimits() ring.Limits { return within(4*time.Second, 4500*time.Millisecond) }

// count returns the number of outcomes of each kind.
func count(outcomes []clock.Outcome) map[clock.OutcomeKind]int {
	n := map[clock.OutcomeKind]int{}
	for _, o := range outcomes {
		n[o.Kind]++
	}
	return n
}

// wantAll fails unless every outcome has that kind.
func wantAll(tb testing.TB, outcomes []clock.Outcome, kind clock.OutcomeKind) {
	tb.Helper()
	for i, o := range outcomes {
		if o.Kind != kind {
			tb.Fatalf("outcome %d of %d is %s (%s), want %s; all: %v", i, len(outcomes), o.Kind, o.Reason, kind,
				count(outcomes))
		}
	}
}

// eventually polls until holds returns true.
func eventually(tb testing.TB, within time.Duration, what string, holds func() bool) {
	tb.Helper()
	within = max(within, hangGuard)
	timeout := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			tb.Fatalf("not within %s: %s", within, what)
		}
	}
}

// laneTo returns a lane to the broker. gather is its GatherBytes.
func laneTo(tb testing.TB, s *scripted.Broker, gather int) *lane {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.GatherBytes = s.URL(), gather
	session, err := New(cfg, Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	session.health.probePassed(0, time.Now())
	return laneOf(tb, session)
}

// receiveSoon returns the next value from c, and fails if none comes.
func receiveSoon[T any](tb testing.TB, c <-chan T) (value T) {
	tb.Helper()
	select {
	case value = <-c:
	case <-time.After(hangGuard):
		tb.Fatal("nothing came")
	}
	return value
}
