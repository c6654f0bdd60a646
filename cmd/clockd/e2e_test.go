package main

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// target is the target of a test's rings.
type target struct {
	name   string
	broker bool
}

// forAll runs the flow on every engine, on the servers with the broker and on SQLite with the stream. If allFlows, it
// runs every engine with both.
func forAll(t *testing.T, flow func(t *testing.T, databaseURL string, b *testBroker)) {
	onEngines(t, engines, flow)
}

// forOne is forAll for a flow that does not depend on the database: it runs on the engine with the name.
func forOne(t *testing.T, name string, flow func(t *testing.T, databaseURL string, b *testBroker)) {
	onEngines(t, chosen(name), flow)
}

func onEngines(t *testing.T, some []databaseEngine, flow func(t *testing.T, databaseURL string, b *testBroker)) {
	for _, e := range some {
		for _, to := range []target{{"rabbitmq", true}, {"stream", false}} {
			if !allFlows && to.broker != (e.name != "sqlite") {
				continue
			}
			t.Run(e.name+"-"+to.name, func(t *testing.T) {
				t.Parallel()
				var b *testBroker
				if to.broker {
					b = dialBroker(t, amqpURL())
				}
				flow(t, e.open(t), b)
			})
		}
	}
}

// forClusters runs the flow with the broker, on each database that several machines can share.
func forClusters(t *testing.T, flow func(t *testing.T, databaseURL string, b *testBroker)) {
	onServers(t, sharedEngines(), flow)
}

// forCluster is forClusters for a flow that does not depend on the database: it runs on the server with the name.
func forCluster(t *testing.T, name string, flow func(t *testing.T, databaseURL string, b *testBroker)) {
	onServers(t, chosenShared(name), flow)
}

func onServers(t *testing.T, servers []databaseEngine, flow func(t *testing.T, databaseURL string, b *testBroker)) {
	for _, e := range servers {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			flow(t, e.open(t), dialBroker(t, amqpURL()))
		})
	}
}

// startOn starts clockd on the database. Its target is the broker, or the stream if b is nil.
func startOn(t *testing.T, databaseURL string, b *testBroker) *process {
	t.Helper()
	env := []string{"CLOCKD_DATABASE_URL=" + databaseURL}
	if b != nil {
		env = append(env, b.env()...)
	}
	return start(t, env...)
}

// receiveFrom collects an application's rings from the broker, or from the stream if b is nil.
func receiveFrom(p *process, b *testBroker, application string) *receiver {
	if b != nil {
		return b.receive(application)
	}
	return p.listen(application)
}

// set sets count alarms of the application in batches. Their business ids are prefix-0, prefix-1 and so on; alarm i
// rings at when(i).
func (p *process) set(application, prefix string, count int, when func(i int) time.Time) {
	p.t.Helper()
	const batch = 500
	for from := 0; from < count; from += batch {
		var sets []map[string]any
		for i := from; i < min(from+batch, count); i++ {
			sets = append(sets, map[string]any{
				"business_id": fmt.Sprintf("%s-%d", prefix, i), "ring_at": when(i).UnixMilli(),
				"payload": map[string]int{"n": i},
			})
		}
		a := p.must(http.StatusOK, http.MethodPost, "/v1/applications/"+application+"/alarms",
			map[string]any{"set": sets})
		for _, r := range a.Results {
			if r.Status != http.StatusCreated && (!a.Repeated || r.Status != http.StatusOK) {
				p.t.Fatalf("set: %+v", r)
			}
		}
	}
}

// cancelMost cancels the alarms whose number is not a multiple of ten. It returns the alarms that were cancelled; the
// others had rung already.
func (p *process) cancelMost(application, prefix string, count int) map[string]bool {
	p.t.Helper()
	cancelled := map[string]bool{}
	var ids []string
	flush := func() {
		if len(ids) == 0 {
			return
		}
		a := p.must(http.StatusOK, http.MethodPost, "/v1/applications/"+application+"/alarms",
			map[string]any{"cancel": ids})
		for _, r := range a.Results {
			switch {
			case r.Status == http.StatusOK:
				cancelled[r.BusinessID] = true
			case r.Code != "already_rung" && r.Code != "ring_in_doubt":
				p.t.Errorf("cancel: %+v", r)
			}
		}
		ids = ids[:0]
	}
	for i := range count {
		if i%10 == 0 {
			continue
		}
		if ids = append(ids, fmt.Sprintf("%s-%d", prefix, i)); len(ids) == 500 {
			flush()
		}
	}
	flush()
	return cancelled
}

// This is the common case. Most alarms are cancelled before they ring, and some while they ring. The others ring once
// and not early.
func TestCancelledAlarmsDoNotRingAndOthersRingOnce(t *testing.T) {
	t.Parallel()
	mostAreCancelled(t, 2000)
}

func mostAreCancelled(t *testing.T, count int) {
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		p := startOn(t, databaseURL, b)
		got := receiveFrom(p, b, "shop")
		first := time.Now().Add(2*time.Second + time.Duration(count)*400*time.Microsecond).Truncate(time.Millisecond)
		p.set("shop", "order", count,
			func(i int) time.Time { return first.Add(time.Duration(i%2000) * time.Millisecond) })
		cancelled := p.cancelMost("shop", "order", count)
		eventually(t, "every alarm that was not cancelled rings", func() bool {
			distinct, _ := got.byID()
			return len(distinct) >= count-len(cancelled)
		})
		distinct, copies := got.byID()
		again := 0
		for id, n := range distinct {
			if cancelled[id] || n != 1 {
				t.Errorf("%s rang as %d messages, cancelled: %t", id, n, cancelled[id])
			}
			again += copies[id] - 1
		}
		p.requireOnce("shop", copies)
		for _, r := range got.all() {
			if early := r.target.Sub(r.arrived); early > 0 {
				t.Errorf("%s rang %s early", r.businessID, early)
			}
			if want := `{"n":` + strings.TrimPrefix(r.businessID, "order-") + "}"; r.body != want {
				t.Errorf("%s brought %s, want %s", r.businessID, r.body, want)
			}
		}
		t.Logf("%d alarms, %d cancelled, %d rung, %d copies, 0 lost, 0 rung after a cancel", count, len(cancelled),
			len(distinct), again)
	})
}

// A process is killed in the middle of a herd. No alarm is lost. An alarm that it rang but did not settle rings again
// with the same message id.
func TestKillInMidHerdLosesNoRing(t *testing.T) {
	t.Parallel()
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		const count = 3000
		p := startOn(t, databaseURL, b)
		got := receiveFrom(p, b, "shop")
		due := time.Now().Add(3 * time.Second)
		p.set("shop", "order", count, func(int) time.Time { return due })
		eventually(t, "the herd begins to ring", func() bool { return len(got.all()) > 0 })
		p.kill()
		p = startOn(t, databaseURL, b)
		again := got
		if b == nil {
			again = p.listen("shop")
		}
		rung := map[string]string{} // message ids by business id
		eventually(t, "everything rings", func() bool {
			for _, r := range append(got.all(), again.all()...) {
				if id := rung[r.businessID]; id != "" && id != r.messageID {
					t.Fatalf("%s rang as %s and as %s", r.businessID, id, r.messageID)
				}
				rung[r.businessID] = r.messageID
			}
			return len(rung) == count
		})
	})
}

// A graceful stop in the middle of a herd makes no duplicate, and ends within stopTimeout.
func TestGracefulStopInMidHerdMakesNoDuplicate(t *testing.T) {
	t.Parallel()
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		const count = 3000
		p := startOn(t, databaseURL, b)
		got := receiveFrom(p, b, "shop")
		due := time.Now().Add(3 * time.Second)
		p.set("shop", "order", count, func(int) time.Time { return due })
		eventually(t, "the herd begins to ring", func() bool { return len(got.all()) > 0 })
		if err := p.terminate(); err != nil {
			t.Fatalf("stop: %v", err)
		}
		stopped := p
		p = startOn(t, databaseURL, b)
		received := []*receiver{got}
		if b == nil {
			received = append(received, p.listen("shop"))
		}
		eventually(t, "everything rings", func() bool { return len(copiesOf(received...)) == count })
		p.requireOnce("shop", copiesOf(received...), stopped)
	})
}

// The alarms of an application without a queue are tried, parked and explained, while other applications ring. Once the
// queue exists, all of them ring.
func TestUnroutableAlarmsRingOnceTheirQueueExists(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			b := dialBroker(t, amqpURL())
			p := startOn(t, e.open(t), b)
			const count = 200
			p.set("nobody", "lost", count, func(int) time.Time { return time.Now() })
			got := b.receive("shop")
			p.set("shop", "order", count, func(int) time.Time { return time.Now() })
			eventually(t, "the other application rings", func() bool { d, _ := got.byID(); return len(d) == count })
			eventually(t, "each tried alarm has the reason why it does not ring", func() bool {
				tried := 0
				for i := range count {
					a := p.must(http.StatusOK, http.MethodGet, alarmPath("nobody", fmt.Sprintf("lost-%d", i)), nil)
					if told := strings.Contains(a.LastError, "NO_ROUTE"); a.RetryTimes > 0 != told ||
						told && len(a.Attempts) == 0 {
						t.Fatalf("an unroutable alarm is %+v", a)
					}
					tried += a.RetryTimes
				}
				return tried > 0
			})
			found := b.receive("nobody")
			eventually(t, "all ring once a queue is bound",
				func() bool { d, _ := found.byID(); return len(d) == count })
			p.requireOnce("nobody", copiesOf(found))
		})
	}
}

// An alarm that cannot ring by its latest_ring_at expires, even while its application has no target. A cancel shows
// that.
func TestAlarmExpiresWhenLatestRingAtHasPassed(t *testing.T) {
	t.Parallel()
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		p := startOn(t, databaseURL, b)
		now := time.Now()
		p.must(http.StatusCreated, http.MethodPut, alarmPath("nobody", "late"), map[string]any{
			"ring_at": now.UnixMilli(), "latest_ring_at": now.Add(2 * time.Second).UnixMilli(), "text": "too late",
		})
		eventually(t, "it expires", func() bool {
			return p.must(http.StatusOK, http.MethodGet, alarmPath("nobody", "late"), nil).State == "expired"
		})
		a := p.must(http.StatusConflict, http.MethodDelete, alarmPath("nobody", "late"), nil)
		if a.Code != "already_expired" {
			t.Errorf("the cancel returns %+v", a)
		}
	})
}

// clockd reports all faults of its configuration together, without secrets, and starts nothing.
func TestConfigurationErrorsAreReportedTogether(t *testing.T) {
	t.Parallel()
	cmd := command([]string{
		"CLOCKD_DATABASE_URL=oracle://scott:tiger@db/x", "CLOCKD_AMQP_URL=http://guest:s3cret@mq/",
		"CLOCKD_RETENTION=-1s",
		"CLOCKD_RING_WORKERS=0", "CLOCKD_HEAP_ENTRIES=-5",
	}, "serve")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitUsage {
		t.Errorf("got %v, want exit code %d", err, exitUsage)
	}
	for _, want := range []string{"database URL", "AMQP URL", "retention", "ring workers", "heap entries"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("does not name %q:\n%s", want, out)
		}
	}
	for _, secret := range []string{"tiger", "s3cret"} {
		if strings.Contains(string(out), secret) {
			t.Errorf("prints a secret:\n%s", out)
		}
	}
}

// A database that may lose commits is reported in readiness, the log and a metric. If durability is required, clockd
// refuses it.
func TestUnsafeDurabilityIsReportedOrRefused(t *testing.T) {
	t.Parallel()
	databaseURL := postgres(t)
	careless := databaseURL + "&synchronous_commit=off"
	p := start(t, "CLOCKD_DATABASE_URL="+careless)
	eventually(t, "readiness names the setting", func() bool {
		for _, c := range p.must(http.StatusOK, http.MethodGet, "/readyz", nil).Checks {
			if c.Name == "durability" && c.Status == statusWarning &&
				strings.Contains(c.Detail, "synchronous_commit is off") {
				return true
			}
		}
		return false
	})
	if got := p.metric(`clockd_durability_safe{setting="synchronous_commit"}`); got != 0 {
		t.Errorf("the metric is %v, want 0", got)
	}
	if got := p.metric(`clockd_durability_safe{setting="fsync"}`); got != 1 &&
		!strings.Contains(p.log.String(), "fsync") {
		t.Errorf("the metric of fsync is %v, and the log does not name fsync", got)
	}
	if !strings.Contains(p.log.String(), "setting=synchronous_commit") {
		t.Errorf("the log does not name the setting:\n%s", p.log)
	}
	out, err := command([]string{"CLOCKD_DATABASE_URL=" + careless, "CLOCKD_REQUIRE_DURABLE=true", "CLOCKD_LISTEN=127.0.0.1:0"}, "serve").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailure ||
		!strings.Contains(string(out), "synchronous_commit is off") {
		t.Errorf("with durability required: %v\n%s", err, out)
	}
}

// An alarm with delivery at_most_once never rings twice, even if the process dies in the middle of a herd. An alarm
// whose ring did not arrive is in doubt.
func TestAtMostOnceNeverRingsTwice(t *testing.T) {
	t.Parallel()
	forAll(t, func(t *testing.T, databaseURL string, b *testBroker) {
		const count = 1000
		env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_RING_BATCH=50"} // small batches, so that some alarms have not rung when it is killed
		if b != nil {
			env = append(env, b.env()...)
		}
		p := start(t, env...)
		got := receiveFrom(p, b, "shop")
		due := time.Now().Add(3 * time.Second)
		var sets []map[string]any
		for i := range count {
			sets = append(sets, map[string]any{
				"business_id": fmt.Sprintf("once-%d", i), "ring_at": due.UnixMilli(), "payload": i,
				"delivery": "at_most_once",
			})
		}
		for from := 0; from < count; from += 500 {
			p.must(http.StatusOK, http.MethodPost, "/v1/applications/shop/alarms",
				map[string]any{"set": sets[from : from+500]})
		}
		eventually(t, "the herd begins to ring", func() bool { return len(got.all()) > 0 })
		p.kill()
		p = start(t, env...)
		again := &receiver{}
		if b == nil {
			again = p.listen("shop")
		}
		eventually(t, "all alarms are finished", func() bool {
			return p.inState("shop", clock.Rung) == count
		})
		var arrived map[string]int
		lost := 0
		eventually(t, "each alarm has arrived or is in doubt", func() bool {
			arrived, lost = copiesOf(got, again), 0
			for i := range count {
				id := fmt.Sprintf("once-%d", i)
				if arrived[id] > 0 {
					continue
				}
				if lost++; !p.must(http.StatusOK, http.MethodGet, alarmPath("shop", id), nil).InDoubt {
					return false // or it is on its way through the broker
				}
			}
			return true
		})
		for id, n := range arrived {
			if n > 1 {
				t.Errorf("%s rang %d times", id, n)
			}
		}
		t.Logf("%d of %d did not arrive, and are in doubt", lost, count)
	})
}
