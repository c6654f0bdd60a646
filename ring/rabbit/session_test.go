package rabbit

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
)

func TestSessionLife(t *testing.T) {
	b := shared(t)
	reg := prometheus.NewRegistry()
	s, err := New(b.config(), Deps{Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(b.config(), Deps{Registerer: reg}); err == nil {
		t.Error("metrics were registered twice")
	}
	if s.Usable() == nil {
		t.Error("usable before it has connected")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	usable(t, s, 5*time.Second)
	if !s.Accepts("anything") || s.Warnings() != nil || testutil.ToFloat64(s.metrics.usable) != 1 {
		t.Errorf("accepts %v, warnings %q, gauge %v", s.Accepts("anything"), s.Warnings(), testutil.ToFloat64(s.metrics.usable))
	}
	l := s.Lane()
	b.queue("shop", nil)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	drain(s.Changed())
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("run: %v", err)
		}
	case <-time.After(2 * time.Second):
		t.Fatal("run does not end")
	}
	select {
	case <-s.Changed():
	default:
		t.Error("the end was not signalled")
	}
	if s.Usable() == nil {
		t.Error("usable after its end")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

func TestExchangeOfAnotherKindIsNamed(t *testing.T) {
	b := shared(t)
	b.must(b.ch.ExchangeDeclare(b.exchange, "fanout", true, false, false, false, nil))
	s := run(t, b.config())
	eventually(t, 5*time.Second, "a clear reason", func() bool {
		err := s.Usable()
		return strings.Contains(err.Error(), "not as a durable direct exchange") &&
			strings.Contains(err.Error(), "CLOCKD_AMQP_EXCHANGE") && strings.Contains(err.Error(), "406 PRECONDITION_FAILED")
	})
	b.must(b.ch.ExchangeDelete(b.exchange, false, false)) // a person heals it
	usable(t, s, 5*time.Second)
}

func TestExchangeIsWhatOthersCanDeclareToo(t *testing.T) {
	b := shared(t)
	ready(t, b.config())
	b.must(b.ch.ExchangeDeclare(b.exchange, "direct", true, false, false, false, nil))
}

func TestQueuesAreDeclaredOnRequest(t *testing.T) {
	b := shared(t)
	cfg := b.config()
	cfg.DeclareQueues = []string{"shop", "bank"}
	_, err := b.ch.QueueDeclare(b.exchange+".bank", true, false, false, false, nil) // a classic one is there already
	b.must(err)
	t.Cleanup(func() {
		b.remove(b.exchange + ".shop")
		b.remove(b.exchange + ".bank")
	})
	s := ready(t, cfg)
	all(t, laneOf(t, s).Deliver(t.Context(), rings("shop", 5), usual()), clock.Confirmed)
	b.take(b.exchange+".shop", 5)
	_, err = b.ch.QueueDeclare(b.exchange+".shop", true, false, false, false, quorum)
	b.must(err)
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], b.exchange+`.bank" could not be declared: 406`) {
		t.Errorf("warnings %q", w)
	}
}

// A queue bound with an empty key swallows the probe as an alternate exchange would.
func TestSwallowedReturnsAreWarnedOf(t *testing.T) {
	b := shared(t)
	b.must(b.ch.ExchangeDeclare(b.exchange, "direct", true, false, false, false, nil))
	b.queue("", nil)
	s := ready(t, b.config())
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "mandatory is defeated") {
		t.Errorf("warnings %q", w)
	}
}

func TestSessionComesBackAfterCuts(t *testing.T) {
	b := shared(t)
	p, via := through(t, b.url)
	cfg := b.config()
	cfg.URL = via
	s := ready(t, cfg)
	b.queue("shop", nil)
	l := laneOf(t, s)
	for range 5 {
		all(t, l.Deliver(t.Context(), rings("shop", 3), usual()), clock.Confirmed)
		drain(s.Changed())
		p.cut()
		select {
		case <-s.Changed():
		case <-time.After(5 * time.Second):
			t.Fatal("the cut was not noticed")
		}
		usable(t, s, 5*time.Second)
	}
}

func TestSilentBrokerIsNoticedByTheProbe(t *testing.T) {
	b := shared(t)
	p, via := through(t, b.url)
	cfg := b.config()
	cfg.URL = via
	s := ready(t, cfg)
	p.stall(true)
	if err := unusable(t, s, 3*time.Second); !strings.Contains(err.Error(), "did not confirm a probe within 1s") {
		t.Errorf("reason %q", err)
	}
	p.stall(false)
	usable(t, s, 10*time.Second)
}
