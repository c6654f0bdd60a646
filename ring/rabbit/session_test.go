package rabbit

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

func TestSessionIsUsableOnlyWhileItRuns(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	reg := prometheus.NewRegistry()
	s, err := New(configOf(b), Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(configOf(b), Deps{Registerer: reg}); err == nil {
		t.Error("metrics were registered twice")
	}
	if s.Usable() == nil {
		t.Error("the session is usable before it has connected")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	waitUsable(t, s, 5*time.Second)
	if s.Accepts("anything") != nil || s.Warnings() != nil || testutil.ToFloat64(s.metrics.usable) != 1 {
		t.Errorf("accepts %v, warnings %q, gauge %v", s.Accepts("anything"), s.Warnings(),
			testutil.ToFloat64(s.metrics.usable))
	}
	l := s.Lane(1)
	b.Queue("shop", nil)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	wire.Drain(s.Changed())
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(rabbittest.HangGuard):
		t.Fatal("run does not end")
	}
	select {
	case <-s.Changed():
	default:
		t.Error("Changed did not signal the end")
	}
	if s.Usable() == nil {
		t.Error("the session is usable after its end")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

func TestExchangeOfAnotherTypeIsReported(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	b.Must(b.Ch.ExchangeDeclare(b.Exchange, "fanout", true, false, false, false, nil))
	s := run(t, configOf(b))
	rabbittest.Eventually(t, 5*time.Second, "a clear reason", func() bool {
		err := s.Usable()
		return strings.Contains(err.Error(), "not as a durable direct exchange") &&
			strings.Contains(err.Error(), "CLOCKD_AMQP_EXCHANGE") &&
			strings.Contains(err.Error(), "406 PRECONDITION_FAILED")
	})
	b.Must(b.Ch.ExchangeDelete(b.Exchange, false, false)) // as a person does after reading the error
	waitUsable(t, s, 5*time.Second)
}

func TestExchangeCanBeDeclaredByOthersToo(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	startUsable(t, configOf(b))
	b.Must(b.Ch.ExchangeDeclare(b.Exchange, "direct", true, false, false, false, nil))
}

func TestQueuesAreDeclaredOnRequest(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := configOf(b)
	cfg.DeclareQueues = []string{"shop", "bank"}
	_, err := b.Ch.QueueDeclare(b.Exchange+".bank", true, false, false, false, nil) // a classic queue exists already
	b.Must(err)
	t.Cleanup(func() {
		b.Remove(b.Exchange + ".shop")
		b.Remove(b.Exchange + ".bank")
	})
	s := startUsable(t, cfg)
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), rings("shop", 5), ampleLimits()), clock.Confirmed)
	b.Take(b.Exchange+".shop", 5)
	_, err = b.Ch.QueueDeclare(b.Exchange+".shop", true, false, false, false, rabbittest.Quorum)
	b.Must(err)
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], b.Exchange+`.bank" could not be declared: 406`) {
		t.Errorf("warnings %q", w)
	}
}

// A queue bound with an empty key takes the probe, like an alternate exchange.
func TestSwallowedProbeCausesAWarning(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	b.Must(b.Ch.ExchangeDeclare(b.Exchange, "direct", true, false, false, false, nil))
	b.Queue("", nil)
	s := startUsable(t, configOf(b))
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "the mandatory flag has no effect") {
		t.Errorf("warnings %q", w)
	}
}

func TestSessionComesBackAfterCuts(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	b.Queue("shop", nil)
	l := laneOf(t, s)
	for range 5 {
		wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 3), ampleLimits()), clock.Confirmed)
		wire.Drain(s.Changed())
		p.Cut()
		select {
		case <-s.Changed():
		case <-time.After(rabbittest.HangGuard):
			t.Fatal("the cut was not noticed")
		}
		waitUsable(t, s, 5*time.Second)
	}
}

func TestSilentBrokerIsNoticedByTheProbe(t *testing.T) {
	t.Parallel()
	_, p, cfg := proxied(t)
	cfg.ProbeTimeout = time.Second
	s := startUsable(t, cfg)
	p.Stall(true)
	if err := waitUnusable(t, s, 3*time.Second); !strings.Contains(err.Error(), "did not confirm a probe within 1s") {
		t.Errorf("reason %q", err)
	}
	p.Stall(false)
	waitUsable(t, s, 10*time.Second)
}

// Each step of a set-up has its own DialTimeout, so a set-up of many steps succeeds over a slow network.
func TestSetUpOverASlowBrokerTakesManySteps(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	p, via := rabbittest.ProxyTo(t, b.URL)
	p.Lag(30 * time.Millisecond)
	cfg := wakesOf(t, b)
	cfg.URL, cfg.DialTimeout = via, time.Second
	for i := range 12 {
		cfg.DeclareQueues = append(cfg.DeclareQueues, fmt.Sprint("shop", i))
	}
	t.Cleanup(func() {
		for _, application := range cfg.DeclareQueues {
			b.Remove(b.Exchange + "." + application)
		}
	})
	startUsable(t, cfg)
	l, _ := listen(t, cfg)
	shards := make([]int, 64)
	for i := range shards {
		shards[i] = i
	}
	l.follow(t, shards...)
	l.Send(63, []byte("heard"))
	l.hears(t, "heard")
}
