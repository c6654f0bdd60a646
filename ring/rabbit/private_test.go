package rabbit

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
)

// calm puts the private broker back in order after a test.
func calm(t *testing.T, args ...string) {
	t.Helper()
	t.Cleanup(func() { onPrivate(t, args...) })
}

func alarm(t *testing.T, on bool) {
	t.Helper()
	mark := "0.4"
	if on {
		mark = "0.0000001"
	}
	onPrivate(t, "ctl", "rabbitmq", "set_vm_memory_high_watermark", mark)
}

func TestBlockedBrokerIsUnusableUntilUnblocked(t *testing.T) {
	b := open(t, privateBroker(t))
	cfg := b.config()
	cfg.ProbeInterval = time.Hour // the lane shall notice first
	s := ready(t, cfg)
	queue := b.queue("shop", quorum)
	l := laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	b.take(queue, 1)
	calm(t, "ctl", "rabbitmq", "set_vm_memory_high_watermark", "0.4")
	alarm(t, true)

	limits := within(200*time.Millisecond, 400*time.Millisecond)
	batch := rings("shop", 50)
	outcomes := l.Deliver(t.Context(), batch, limits)
	all(t, outcomes, clock.Doubtful)
	if late := time.Since(limits.Answer); late > time.Second {
		t.Errorf("%s after the limit", late)
	}
	for _, reason := range []string{outcomes[0].Reason, s.Usable().Error()} {
		if !strings.Contains(reason, "the broker takes no messages: low on memory") {
			t.Errorf("reason %q", reason)
		}
	}
	began := time.Now()
	all(t, l.Deliver(t.Context(), batch, usual()), clock.Unsent)
	if took := time.Since(began); took > time.Second {
		t.Errorf("a delivery to a blocked broker took %s", took)
	}
	eventually(t, 5*time.Second, "the control connection blocked", func() bool { return testutil.ToFloat64(s.metrics.blocked) == 1 })
	<-time.After(2 * cfg.ProbeTimeout) // a blocked probe is not late
	if err := s.Usable(); err == nil || testutil.ToFloat64(s.metrics.errors.WithLabelValues(kindProbe)) != 0 {
		t.Errorf("usable: %v", err)
	}
	s.health.mu.Lock()
	doubt := s.health.doubt
	s.health.mu.Unlock()
	if doubt == "" {
		t.Error("the one message that the broker takes before it blocks a connection has passed for a probe")
	}
	alarm(t, false)
	usable(t, s, 5*time.Second)
	all(t, l.Deliver(t.Context(), batch, usual()), clock.Confirmed)
	arrived := b.arrived(queue)
	for i := range batch {
		if arrived[batch[i].MessageID()] == 0 {
			t.Errorf("ring %d is lost", i)
		}
	}
}

func TestAlarmIsNoticedFromStartAndWhenIdle(t *testing.T) {
	b := open(t, privateBroker(t))
	calm(t, "ctl", "rabbitmq", "set_vm_memory_high_watermark", "0.4")
	alarm(t, true)
	s := run(t, b.config())
	eventually(t, 5*time.Second, "blocked", func() bool { return testutil.ToFloat64(s.metrics.blocked) == 1 })
	if err := s.Usable(); err == nil || !strings.Contains(err.Error(), "low on memory") {
		t.Errorf("usable: %v", err)
	}
	alarm(t, false)
	usable(t, s, 5*time.Second)
	alarm(t, true) // nothing rings, the probe notices
	if err := unusable(t, s, 5*time.Second); !strings.Contains(err.Error(), "low on memory") {
		t.Errorf("reason %q", err)
	}
	alarm(t, false)
	usable(t, s, 5*time.Second)
}

// A delivery that is blocked on the way and let go in time is confirmed.
func TestShortBlockIsWaitedFor(t *testing.T) {
	b := open(t, privateBroker(t))
	cfg := b.config()
	cfg.ProbeInterval = time.Hour // the delivery shall meet it
	s := ready(t, cfg)
	b.queue("shop", nil)
	l := laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	calm(t, "ctl", "rabbitmq", "set_vm_memory_high_watermark", "0.4")
	alarm(t, true)
	delivered := make(chan []clock.Outcome, 1)
	go func() { delivered <- l.Deliver(t.Context(), rings("shop", 5), within(time.Second, 20*time.Second)) }()
	eventually(t, 5*time.Second, "blocked", func() bool { return s.Usable() != nil })
	alarm(t, false)
	all(t, <-delivered, clock.Confirmed)
	usable(t, s, 5*time.Second)
}

func TestStoppedBroker(t *testing.T) {
	b := open(t, privateBroker(t))
	s := ready(t, b.config())
	queue := b.queue("shop", quorum)
	l, fresh := laneOf(t, s), laneOf(t, s)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Confirmed)
	b.take(queue, 1)
	calm(t, "cont", "rabbitmq")
	onPrivate(t, "pause", "rabbitmq")

	if s.Usable() == nil { // the probe has not noticed yet
		limits := within(200*time.Millisecond, 400*time.Millisecond)
		for _, l := range []*lane{l, fresh} {
			outcomes := l.Deliver(t.Context(), rings("shop", 50), limits)
			if late := time.Since(limits.Answer); late > time.Second {
				t.Errorf("%s after the limit", late)
			}
			if n := count(outcomes); n[clock.Doubtful]+n[clock.Unsent] != 50 {
				t.Errorf("outcomes %v", n)
			}
			if l == fresh {
				all(t, outcomes, clock.Unsent) // it could not even connect
			}
		}
	}
	unusable(t, s, 5*time.Second)
	onPrivate(t, "cont", "rabbitmq")
	usable(t, s, 10*time.Second)
	batch := rings("shop", 50)
	all(t, l.Deliver(t.Context(), batch, usual()), clock.Confirmed)
	arrived := b.arrived(queue)
	for i := range batch {
		if arrived[batch[i].MessageID()] != 1 {
			t.Errorf("ring %d came %d times", i, arrived[batch[i].MessageID()])
		}
	}
}

// The broker closes the channel for one message that is too large: all unresolved rings of the batch are refused, so that
// the caller looks for the culprit, and the culprit alone is refused alone.
func TestTooLargeMessageIsRefused(t *testing.T) {
	b := open(t, privateBroker(t))
	calm(t, "ctl", "rabbitmq", "eval", "application:unset_env(rabbit, max_message_size).")
	onPrivate(t, "ctl", "rabbitmq", "eval", "application:set_env(rabbit, max_message_size, 1000).")
	s := ready(t, b.config())
	queue := b.queue("shop", quorum)
	l := laneOf(t, s)
	batch := rings("shop", 9)
	batch[6].Payload = make([]byte, 1001)
	outcomes := l.Deliver(t.Context(), batch, usual())
	n := count(outcomes)
	if outcomes[6].Kind != clock.Refused || n[clock.Refused] < 3 || n[clock.Refused]+n[clock.Confirmed] != 9 {
		t.Fatalf("outcomes %+v", outcomes)
	}
	if !strings.HasPrefix(outcomes[6].Reason, "406 PRECONDITION_FAILED") {
		t.Errorf("reason %q", outcomes[6].Reason)
	}
	link := l.link
	alone := l.Deliver(t.Context(), batch[6:7], usual())
	all(t, alone, clock.Refused)
	all(t, l.Deliver(t.Context(), batch[:6], usual()), clock.Confirmed)
	all(t, l.Deliver(t.Context(), batch[7:], usual()), clock.Confirmed)
	if l.link != link {
		t.Error("the connection was given up for one message")
	}
	if s.Usable() != nil {
		t.Errorf("usable: %v", s.Usable())
	}
	arrived := b.arrived(queue)
	for i := range batch {
		if got := arrived[batch[i].MessageID()] > 0; got != (i != 6) {
			t.Errorf("ring %d arrived: %v", i, got)
		}
	}
}

func TestAlternateExchangeByPolicyIsWarnedOf(t *testing.T) {
	b := open(t, privateBroker(t))
	s := ready(t, b.config())
	swallower := b.exchange + "-ae"
	b.must(b.ch.ExchangeDeclare(swallower, "fanout", true, false, false, false, nil))
	t.Cleanup(func() { b.must(b.ch.ExchangeDelete(swallower, false, false)) })
	queue := b.queue("unused", nil)
	b.must(b.ch.QueueBind(queue, "", swallower, false, nil))
	if w := s.Warnings(); w != nil {
		t.Fatalf("warnings %q", w)
	}
	onPrivate(t, "ctl", "rabbitmq", "set_policy", b.exchange, "^"+b.exchange+"$",
		`{"alternate-exchange":"`+swallower+`"}`, "--apply-to", "exchanges")
	t.Cleanup(func() { onPrivate(t, "ctl", "rabbitmq", "clear_policy", b.exchange) })
	eventually(t, 5*time.Second, "a warning", func() bool {
		w := s.Warnings()
		return len(w) == 1 && strings.Contains(w[0], "alternate exchange")
	})
	if s.Usable() != nil {
		t.Errorf("usable: %v", s.Usable())
	}
}

// A broker that dies takes lanes and session with it; what was confirmed is there when it is back.
func TestKilledBroker(t *testing.T) {
	b := open(t, privateBroker(t))
	s := ready(t, b.config())
	queue := unique("durable")
	// a classic one: RabbitMQ 3.10 forgets a quorum queue's log when it is killed seconds after the declaration
	_, err := b.ch.QueueDeclare(queue, true, false, false, false, nil)
	b.must(err)
	b.must(b.ch.QueueBind(queue, "shop", b.exchange, false, nil))
	l := laneOf(t, s)
	batch := rings("shop", 100)
	all(t, l.Deliver(t.Context(), batch, usual()), clock.Confirmed)
	calm(t, "start", "rabbitmq")
	onPrivate(t, "ctl", "rabbitmq", "eval", "mnesia:sync_log().") // or a kill so soon may undo the declarations
	onPrivate(t, "kill", "rabbitmq")
	unusable(t, s, 5*time.Second)
	all(t, l.Deliver(t.Context(), rings("shop", 1), usual()), clock.Unsent)
	onPrivate(t, "start", "rabbitmq")
	usable(t, s, 15*time.Second)
	var last clock.Outcome
	defer func() { t.Logf("the last ring: %s %s", last.Kind, last.Reason) }()
	eventually(t, 30*time.Second, "a ring after the restart", func() bool {
		last = l.Deliver(t.Context(), rings("shop", 1), usual())[0]
		return last.Kind == clock.Confirmed
	})
	b.redial()
	arrived := b.arrived(queue)
	for i := range batch {
		if arrived[batch[i].MessageID()] == 0 {
			t.Errorf("ring %d was confirmed and is lost", i)
		}
	}
	b.remove(queue)
}
