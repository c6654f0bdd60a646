package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// services is a set of servers for one test. The test may stop and kill them.
type services struct {
	t   *testing.T
	dir string
	env map[string]string
}

// startPrivateServers starts the named servers in a folder of the test.
func startPrivateServers(t *testing.T, names ...string) *services {
	t.Helper()
	dir, err := os.MkdirTemp("", "clockd-e2e-") //nolint:usetesting // the servers' users must be able to enter it
	if err != nil {
		t.Fatal(err)
	}
	s := &services{t: t, dir: dir, env: map[string]string{}}
	t.Cleanup(func() {
		s.do("down", "--purge")
		_ = os.RemoveAll(dir)
	})
	s.do(append([]string{"up"}, names...)...)
	for line := range strings.Lines(s.do("env")) {
		if name, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "="); ok {
			s.env[name] = strings.Trim(value, `'"`)
		}
	}
	return s
}

// in returns the same servers for a subtest.
func (s *services) in(t *testing.T) *services {
	return &services{t: t, dir: s.dir, env: s.env}
}

// do runs deploy/services and returns its output.
func (s *services) do(args ...string) string {
	s.t.Helper()
	cmd := exec.Command(filepath.Join("..", "..", "deploy", "services"), args...)
	cmd.Env = append(os.Environ(), "CLOCKD_SERVICES_DIR="+s.dir)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("deploy/services %v: %v\n%s", args, err, &complaints)
	}
	return string(out)
}

// targetFails reports whether the check of the target fails in /readyz. The node must be ready nevertheless.
func (p *process) targetFails() bool {
	p.t.Helper()
	for _, c := range p.must(http.StatusOK, http.MethodGet, "/readyz", nil).Checks {
		if c.Name == "target" {
			return c.Status == statusFailing && c.Detail != ""
		}
	}
	return false
}

// The faults happen to one broker, one after the other: a start of a broker takes long.
func TestFaultsOfTheBroker(t *testing.T) {
	t.Parallel()
	s := startPrivateServers(t, "rabbitmq")
	t.Run("away", func(t *testing.T) { brokerIsAway(t, s.in(t)) })
	t.Run("stands still", func(t *testing.T) { brokerStandsStill(t, s.in(t)) })
	t.Run("blocks", func(t *testing.T) { brokerBlocks(t, s.in(t)) })
}

// brokerIsAway: the broker stops and comes back. Meanwhile sets, cancels and reads go on, and no try is counted.
// Afterwards all due alarms ring.
func brokerIsAway(t *testing.T, s *services) {
	b := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
	p := startOn(t, mariadb(t), b)
	b.receive("shop")
	const count = 300
	s.do("stop", "rabbitmq")
	p.set("shop", "order", count, func(int) time.Time { return time.Now() })
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "later"), map[string]any{"delay": "1h"})
	p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "later"), nil)
	eventually(t, "readiness names the broker and stays ready", func() bool { return p.targetFails() })
	for i := range count {
		a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", fmt.Sprintf("order-%d", i)), nil)
		if a.State != "scheduled" || a.RetryTimes != 0 {
			t.Fatalf("while the broker is away: %+v", a)
		}
	}
	s.do("start", "rabbitmq")
	back := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
	back.exchange = b.exchange
	got := back.receive("shop")
	eventually(t, "all due alarms ring", func() bool { d, _ := got.byID(); return len(d) == count })
	p.requireOnce("shop", copiesOf(got))
}

// brokerStandsStill: the broker stands still in the middle of a burst, for longer than clockd waits for confirms, and
// then goes on. Its late confirms are the outcomes of the rings: no ring is published again while its connection lives.
func brokerStandsStill(t *testing.T, s *services) {
	b := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
	p := startOn(t, mariadb(t), b)
	got := b.receive("shop")
	const burst, bursts = 1500, 10
	count := 0
	for awaited := false; !awaited; { // on a busy machine a pause may find no ring under way
		if count == bursts*burst {
			t.Fatalf("in none of %d pauses were rings awaited", bursts)
		}
		due := time.Now().Add(3 * time.Second)
		p.set("shop", fmt.Sprint("order", count), burst, func(i int) time.Time { return due.Add(time.Duration(i) * 10 * time.Millisecond) }) // the pause begins late on a busy machine
		begun := count + burst/10
		count += burst
		eventually(t, "the burst has begun", func() bool { return len(copiesOf(got)) > begun })
		s.do("pause", "rabbitmq")
		end := time.Now().Add(20 * time.Second)
		for ; !awaited && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			awaited = p.metric("clockd_ring_awaited") > 0
		}
		s.do("cont", "rabbitmq")
		eventually(t, "all alarms ring", func() bool { return len(copiesOf(got)) == count })
	}
	eventually(t, "all late confirms are written", func() bool { return p.metric("clockd_ring_awaited") == 0 })
	lost := 0
	var repeated []string
	for id, copies := range copiesOf(got) {
		attempts := fmt.Sprint(p.must(http.StatusOK, http.MethodGet, alarmPath("shop", id), nil).Attempts)
		if strings.Contains(attempts, "connection lost") {
			lost++ // on a busy machine the pause may last so long that a heartbeat is missed
		} else if copies > 1 {
			repeated = append(repeated, fmt.Sprintf("%s rang %d times: %s", id, copies, attempts))
		}
	}
	if unsettled := p.unsettledAlarms(); len(repeated) > unsettled { // on a busy machine a commit may come too late
		t.Errorf("%d alarms rang more than once, and %d were in claims that were not settled: %v", len(repeated),
			unsettled, repeated)
	}
	if confirmed := p.metric(`clockd_ring_late_replies_total{outcome="confirmed"}`); confirmed == 0 && lost == 0 {
		t.Error("no confirm was late")
	}
}

// brokerBlocks: the broker blocks publishers because it is out of memory. Sets go on, no try is counted, and no claim
// holds a database connection.
func brokerBlocks(t *testing.T, s *services) {
	b := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
	p := startOn(t, postgres(t), b)
	got := b.receive("shop")
	s.do("ctl", "rabbitmq", "eval", "vm_memory_monitor:set_vm_memory_high_watermark(0.0000001).")
	const count = 300
	p.set("shop", "order", count, func(int) time.Time { return time.Now().Add(2 * time.Second) })
	eventually(t, "readiness names the block and stays ready", func() bool { return p.targetFails() })
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "meanwhile"), map[string]any{"delay": "1h"})
	s.do("ctl", "rabbitmq", "eval", "vm_memory_monitor:set_vm_memory_high_watermark(0.4).")
	eventually(t, "all due alarms ring", func() bool { d, _ := got.byID(); return len(d) == count })
	for i := range count {
		a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", fmt.Sprintf("order-%d", i)), nil)
		if a.RetryTimes != 0 {
			t.Fatalf("a try was counted: %+v", a)
		}
	}
}

// The database is killed and comes back. Meanwhile requests get 503 with Retry-After. Afterwards clockd works again by
// itself.
func TestRequestsAreUnavailableWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	for _, d := range []struct{ service, variable string }{
		{"mariadb", "CLOCKD_TEST_MYSQL_URL"}, {"postgresql", "CLOCKD_TEST_POSTGRES_URL"},
	} {
		t.Run(d.service, func(t *testing.T) {
			t.Parallel()
			s := startPrivateServers(t, d.service)
			b := dialBroker(t, amqpURL())
			p := startOn(t, s.env[d.variable], b)
			got := b.receive("shop")
			const count = 300
			p.set("shop", "order", count, func(int) time.Time { return time.Now().Add(4 * time.Second) })
			s.do("kill", d.service)
			eventually(t, "a set gets 503 with Retry-After", func() bool {
				a, err := p.do(http.MethodPut, alarmPath("shop", "meanwhile"), map[string]any{"delay": "1s"})
				return err == nil && a.Status == http.StatusServiceUnavailable && a.RetryAfter != "" && a.Code != ""
			})
			eventually(t, "the node is not ready", func() bool {
				a, err := p.do(http.MethodGet, "/readyz", nil)
				return err == nil && a.Status == http.StatusServiceUnavailable
			})
			s.do("start", d.service)
			eventually(t, "all due alarms ring", func() bool { n, _ := got.byID(); return len(n) >= count })
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "after"), map[string]any{"delay": "1s"})
			eventually(t, "an alarm that is set now rings", func() bool { n, _ := got.byID(); return n["after"] == 1 })
		})
	}
}
