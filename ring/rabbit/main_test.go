package rabbit

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
)

func TestMain(m *testing.M) { os.Exit(rabbittest.Main(m)) }

// configOf returns a configuration for the broker with short intervals. Tests of a silent broker set ProbeTimeout.
func configOf(b *rabbittest.Broker) Config {
	cfg := DefaultConfig()
	cfg.URL, cfg.Exchange = b.URL, b.Exchange
	cfg.ConnectionName = "clockd test"
	cfg.ProbeInterval = 200 * time.Millisecond
	cfg.ProbeTimeout = rabbittest.HangGuard // so that a busy machine does not look like a silent broker
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
		case <-time.After(rabbittest.HangGuard):
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
	within = max(within, rabbittest.HangGuard)
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

// nextAlarm counts the alarms of the tests.
var nextAlarm atomic.Int64

// rings returns n rings of application.
func rings(application string, n int) []clock.Ring {
	rings := make([]clock.Ring, n)
	for i := range rings {
		rings[i] = clock.Ring{
			AlarmID: nextAlarm.Add(1), Key: clock.Key{Application: application, BusinessID: fmt.Sprintf("order %d", i)},
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

// proxied returns the shared broker, a proxy to it, and a configuration whose connections lead through the proxy.
func proxied(tb testing.TB) (b *rabbittest.Broker, p *rabbittest.Proxy, cfg Config) {
	tb.Helper()
	b = rabbittest.Shared(tb)
	cfg = configOf(b)
	p, cfg.URL = rabbittest.ProxyTo(tb, b.URL)
	return b, p, cfg
}
