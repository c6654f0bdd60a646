package rabbit

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
)

func TestBlockedBrokerIsUnusableUntilUnblocked(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	cfg := configOf(b)
	cfg.ProbeInterval = time.Hour // so that the lane notices first
	cfg.ProbeTimeout = time.Second
	s := startUsable(t, cfg)
	queue := b.Queue("shop", rabbittest.Quorum)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	b.Take(queue, 1)
	rabbittest.SetMemoryAlarm(t, true)

	limits := shortLimits()
	batch := rings("shop", 50)
	outcomes := openAndDeliver(t.Context(), l, batch, limits)
	wantAll(t, outcomes, clock.Doubtful)
	t.Logf("%s after the limit", time.Since(limits.ReplyBy))
	for _, reason := range []string{outcomes[0].Reason, s.Usable().Error()} {
		if !strings.Contains(reason, "the broker takes no messages: low on memory") {
			t.Errorf("reason %q", reason)
		}
	}
	wantAll(t, l.Deliver(t.Context(), batch, ampleLimits()), clock.Unsent) // while the broker is blocked
	rabbittest.Eventually(t, 5*time.Second, "the control connection is blocked",
		func() bool { return testutil.ToFloat64(s.metrics.blocked) == 1 })
	<-time.After(2 * cfg.ProbeTimeout) // a blocked probe does not time out
	if err := s.Usable(); err == nil || testutil.ToFloat64(s.metrics.errors.WithLabelValues(kindProbe)) != 0 {
		t.Errorf("usable: %v", err)
	}
	s.health.mu.Lock()
	doubt := s.health.doubtReason
	s.health.mu.Unlock()
	if doubt == "" {
		t.Error("a probe passed with only the one message that the broker takes before it blocks a connection")
	}
	rabbittest.SetMemoryAlarm(t, false)
	waitUsable(t, s, 5*time.Second)
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed)
	arrived := b.Arrived(queue)
	for i := range batch {
		if arrived[batch[i].MessageID()] == 0 {
			t.Errorf("ring %d is lost", i)
		}
	}
}

func TestMemoryAlarmIsNoticedWithoutDeliveries(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	rabbittest.SetMemoryAlarm(t, true)
	s := run(t, configOf(b))
	rabbittest.Eventually(t, 5*time.Second, "a blocked connection",
		func() bool { return testutil.ToFloat64(s.metrics.blocked) == 1 })
	if err := s.Usable(); err == nil || !strings.Contains(err.Error(), "low on memory") {
		t.Errorf("usable: %v", err)
	}
	rabbittest.SetMemoryAlarm(t, false)
	waitUsable(t, s, 5*time.Second)
	rabbittest.SetMemoryAlarm(t, true) // no ring is delivered; the probe notices
	if err := waitUnusable(t, s, 5*time.Second); !strings.Contains(err.Error(), "low on memory") {
		t.Errorf("reason %q", err)
	}
	rabbittest.SetMemoryAlarm(t, false)
	waitUsable(t, s, 5*time.Second)
}

// A delivery is confirmed if the broker blocks its connection and unblocks it before the limit.
func TestDeliveryIsConfirmedAfterAShortBlock(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	cfg := configOf(b)
	cfg.ProbeInterval = time.Hour // so that the delivery is blocked first
	s := startUsable(t, cfg)
	b.Queue("shop", nil)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	rabbittest.SetMemoryAlarm(t, true)
	var delivered []clock.Outcome
	var delivering sync.WaitGroup
	var blocked atomic.Bool
	delivering.Go(func() {
		for !blocked.Load() { // the alarm may reach the connection after the first deliveries
			delivered = append(delivered,
				openAndDeliver(t.Context(), l, rings("shop", 5), within(20*time.Second, rabbittest.HangGuard))...)
		}
	})
	rabbittest.Eventually(t, 5*time.Second, "a blocked connection", func() bool { return s.Usable() != nil })
	blocked.Store(true)
	rabbittest.SetMemoryAlarm(t, false)
	delivering.Wait()
	wantAll(t, delivered, clock.Confirmed)
	waitUsable(t, s, 5*time.Second)
}

// A confirmed ring is reported while another queue of the delivery does not confirm. The test resumes that queue only
// after the report. A returned ring is never reported, although the broker acks it.
func TestConfirmedRingsAreReportedBeforeTheDeliveryEnds(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	s := startUsable(t, configOf(b))
	b.Queue("well", rabbittest.Quorum)
	stuckQueue := b.Queue("sick", rabbittest.Quorum)
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "eval", fmt.Sprintf("sys:suspend('%%2F_%s').", stuckQueue))
	resume := func() {
		rabbittest.OnPrivate(t, "ctl", "rabbitmq", "eval", fmt.Sprintf("sys:resume('%%2F_%s').", stuckQueue))
	}
	t.Cleanup(resume)
	batch := slices.Concat(rings("nobody", 1), rings("sick", 1), rings("well", 1))
	var reported []int
	var resumed sync.WaitGroup
	// rabbitmqctl, which resumes the queue, takes long on a busy machine
	limits := within(rabbittest.HangGuard, 5*rabbittest.HangGuard)
	limits.OnConfirmed = func(ring int) {
		if reported = append(reported, ring); ring == 2 {
			resumed.Go(resume)
		}
	}
	outcomes := openAndDeliver(t.Context(), laneOf(t, s), batch, limits)
	resumed.Wait()
	var kinds []clock.OutcomeKind
	for _, o := range outcomes {
		kinds = append(kinds, o.Kind)
	}
	if !slices.Equal(kinds, []clock.OutcomeKind{clock.Returned, clock.Confirmed, clock.Confirmed}) {
		t.Errorf("outcomes %v", outcomes)
	}
	if len(reported) == 0 || reported[0] != 2 || slices.Contains(reported, 0) {
		t.Errorf("reported rings %v, want 2 first, and never 0", reported)
	}
}

func TestStoppedBrokerIsUnusableUntilItContinues(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	cfg := configOf(b)
	cfg.ProbeTimeout = 2 * time.Second
	s := startUsable(t, cfg)
	queue := b.Queue("shop", rabbittest.Quorum)
	l, fresh := laneOf(t, s), laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
	b.Take(queue, 1)
	rabbittest.RestoreAfter(t, "cont", "rabbitmq")
	rabbittest.OnPrivate(t, "pause", "rabbitmq")

	if s.Usable() == nil { // the probe has not noticed yet
		limits := within(200*time.Millisecond, 400*time.Millisecond)
		for _, l := range []*lane{l, fresh} {
			outcomes := l.Deliver(t.Context(), rings("shop", 50), limits)
			if n := count(outcomes); n[clock.Doubtful]+n[clock.Unsent] != 50 {
				t.Errorf("outcomes %v", n)
			}
			if l == fresh {
				wantAll(t, outcomes, clock.Unsent) // a delivery opens no lane
			}
		}
	}
	waitUnusable(t, s, 5*time.Second)
	rabbittest.OnPrivate(t, "cont", "rabbitmq")
	waitUsable(t, s, 10*time.Second)
	batch := rings("shop", 50)
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed)
	arrived := b.Arrived(queue)
	for i := range batch {
		if arrived[batch[i].MessageID()] != 1 {
			t.Errorf("ring %d arrived %d times", i, arrived[batch[i].MessageID()])
		}
	}
}

// The broker closes the channel because of one message that is too large. All unresolved rings of the batch are
// refused, so that the caller searches for the too large one. Delivered alone, only that ring is refused.
func TestTooLargeMessageIsRefusedAloneWhenRepeated(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	// RabbitMQ 3 reads the environment, and RabbitMQ 4 a term that it has set at its start
	rabbittest.RestoreAfter(t, "ctl", "rabbitmq", "eval",
		"application:unset_env(rabbit, max_message_size), persistent_term:put(max_message_size, 16777216).")
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "eval",
		"application:set_env(rabbit, max_message_size, 1000), persistent_term:put(max_message_size, 1000).")
	s := startUsable(t, configOf(b))
	queue := b.Queue("shop", rabbittest.Quorum)
	l := laneOf(t, s)
	batch := rings("shop", 9)
	batch[6].Payload = make([]byte, 1001)
	outcomes := openAndDeliver(t.Context(), l, batch, ampleLimits())
	n := count(outcomes)
	if outcomes[6].Kind != clock.Refused || n[clock.Refused] < 3 || n[clock.Refused]+n[clock.Confirmed] != 9 {
		t.Fatalf("outcomes %+v", outcomes)
	}
	if !strings.HasPrefix(outcomes[6].Reason, "406 PRECONDITION_FAILED") {
		t.Errorf("reason %q", outcomes[6].Reason)
	}
	link := l.link
	alone := openAndDeliver(t.Context(), l, batch[6:7], ampleLimits())
	wantAll(t, alone, clock.Refused)
	wantAll(t, openAndDeliver(t.Context(), l, batch[:6], ampleLimits()), clock.Confirmed)
	wantAll(t, openAndDeliver(t.Context(), l, batch[7:], ampleLimits()), clock.Confirmed)
	if l.link != link {
		t.Error("the lane gave up its connection because of one message")
	}
	if s.Usable() != nil {
		t.Errorf("usable: %v", s.Usable())
	}
	arrived := b.Arrived(queue)
	for i := range batch {
		if got := arrived[batch[i].MessageID()] > 0; got != (i != 6) {
			t.Errorf("ring %d arrived: %v", i, got)
		}
	}
}

func TestAlternateExchangePolicyCausesAWarning(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	s := startUsable(t, configOf(b))
	swallower := b.Exchange + "-ae"
	b.Must(b.Ch.ExchangeDeclare(swallower, "fanout", true, false, false, false, nil))
	t.Cleanup(func() { b.Must(b.Ch.ExchangeDelete(swallower, false, false)) })
	queue := b.Queue("unused", nil)
	b.Must(b.Ch.QueueBind(queue, "", swallower, false, nil))
	if w := s.Warnings(); w != nil {
		t.Fatalf("warnings %q", w)
	}
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "set_policy", b.Exchange, "^"+b.Exchange+"$",
		`{"alternate-exchange":"`+swallower+`"}`, "--apply-to", "exchanges")
	t.Cleanup(func() { rabbittest.OnPrivate(t, "ctl", "rabbitmq", "clear_policy", b.Exchange) })
	rabbittest.Eventually(t, 5*time.Second, "a warning", func() bool {
		w := s.Warnings()
		return len(w) == 1 && strings.Contains(w[0], "alternate exchange")
	})
	if s.Usable() != nil {
		t.Errorf("usable: %v", s.Usable())
	}
}

// A killed broker ends the connections of lanes and session. After its restart, confirmed rings are in the queue.
func TestKilledBrokerKeepsConfirmedRings(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	s := startUsable(t, configOf(b))
	queue := rabbittest.Unique("durable")
	// a classic queue: RabbitMQ 3.10 loses the log of a quorum queue if it is killed seconds after the declaration
	_, err := b.Ch.QueueDeclare(queue, true, false, false, false, nil)
	b.Must(err)
	b.Must(b.Ch.QueueBind(queue, "shop", b.Exchange, false, nil))
	l := laneOf(t, s)
	batch := rings("shop", 100)
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed)
	rabbittest.RestoreAfter(t, "start", "rabbitmq")
	// otherwise a kill so soon may undo the declarations
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "eval", "mnesia:sync_log().")
	rabbittest.OnPrivate(t, "kill", "rabbitmq")
	waitUnusable(t, s, 5*time.Second)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Unsent)
	rabbittest.OnPrivate(t, "start", "rabbitmq")
	waitUsable(t, s, 15*time.Second)
	var last clock.Outcome
	defer func() { t.Logf("the last ring: %s %s", last.Kind, last.Reason) }()
	rabbittest.Eventually(t, 30*time.Second, "a ring after the restart", func() bool {
		last = openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits())[0]
		return last.Kind == clock.Confirmed
	})
	b.Redial()
	arrived := b.Arrived(queue)
	for i := range batch {
		if arrived[batch[i].MessageID()] == 0 {
			t.Errorf("ring %d was confirmed and is lost", i)
		}
	}
	b.Remove(queue)
}

// clockd's user may write to no exchange of this name, and to a second exchange with some routing keys only. No ring to
// the first is in doubt, and rings with an allowed key arrive.
func TestExchangeWithoutPermissionLeavesNoRingInDoubt(t *testing.T) {
	b := rabbittest.Open(t, rabbittest.PrivateBroker(t))
	s := startUsable(t, configOf(b))
	forbidden, _ := b.OtherExchange("key")
	partly, queue := b.OtherExchange("key")
	permit := func(write string) {
		rabbittest.OnPrivate(t, "ctl", "rabbitmq", "eval", fmt.Sprintf(
			"rabbit_auth_backend_internal:set_permissions(<<\"guest\">>, <<\"/\">>, <<\".*\">>, <<\"%s\">>, <<\".*\">>, <<\"test\">>).", write))
	}
	t.Cleanup(func() { permit(".*") })
	permit("^(?!" + forbidden + ").*")
	t.Cleanup(func() {
		rabbittest.OnPrivate(t, "ctl", "rabbitmq", "eval",
			"rabbit_auth_backend_internal:clear_topic_permissions(<<\"guest\">>, <<\"/\">>, <<\"test\">>).")
	})
	rabbittest.OnPrivate(t, "ctl", "rabbitmq", "eval", fmt.Sprintf(
		"rabbit_auth_backend_internal:set_topic_permissions(<<\"guest\">>, <<\"/\">>, <<\"%s\">>, <<\"^key$\">>, <<\".*\">>, <<\"test\">>).", partly))
	batch := append(messages(t, forbidden, "key", 3), messages(t, partly, "key", 2)...)
	outcomes := openAndDeliver(t.Context(), laneOf(t, s), batch, ampleLimits())
	wantAll(t, outcomes[:3], clock.Returned)
	wantAll(t, outcomes[3:], clock.Confirmed)
	if !strings.Contains(outcomes[0].Reason, "403 ACCESS_REFUSED") {
		t.Errorf("reason: %s", outcomes[0].Reason)
	}
	b.Take(queue, 2)
}
