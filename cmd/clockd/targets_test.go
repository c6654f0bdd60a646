package main

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// application runs clockd application on the database, and returns its output.
func application(t *testing.T, databaseURL string, args ...string) string {
	t.Helper()
	out, err := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL},
		append([]string{"application"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("clockd application %v: %v: %s", args, err, out)
	}
	return string(out)
}

// appliedSettings is the part of an application's settings that the tests look at.
type appliedSettings struct {
	Version        int64  `json:"version"`
	AppliedVersion int64  `json:"applied_version"`
	AppliedTarget  string `json:"applied_target"`
}

// settings reads the settings of an application over HTTP.
func (p *process) settings(application string) (s appliedSettings) {
	p.t.Helper()
	if status, _, err := p.decode(http.MethodGet, "/v1/applications/"+application+"/settings", nil, &s); err != nil ||
		status != http.StatusOK {
		p.t.Fatalf("settings of %s: %d, %v", application, status, err)
	}
	return s
}

// setTarget gives an application a target, and waits until the processes apply it.
func setTarget(t *testing.T, databaseURL, name, target string, nodes ...*process) {
	t.Helper()
	application(t, databaseURL, "set", name, "--target="+target)
	for _, p := range nodes {
		eventually(t, "the node applies the settings", func() bool {
			s := p.settings(name)
			return s.AppliedVersion == s.Version && s.AppliedTarget == target
		})
	}
}

// details returns the details of the checks of that name with that status.
func (p *process) details(name, status string) (details []string) {
	p.t.Helper()
	for _, c := range p.must(http.StatusOK, http.MethodGet, "/readyz", nil).Checks {
		if c.Name == name && c.Status == status {
			details = append(details, c.Detail)
		}
	}
	return details
}

// One process rings some applications over RabbitMQ and others over the stream. An outage of RabbitMQ holds up only its
// own applications, and readiness names the target. A subscriber that does not read holds up only its own application.
func TestApplicationsOfOneProcessRingToDifferentTargets(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			b := dialBroker(t, amqpURL())
			g, through := newGate(t, b.url)
			databaseURL := e.open(t)
			p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_AMQP_URL="+through,
				"CLOCKD_AMQP_EXCHANGE="+b.exchange)
			setTarget(t, databaseURL, "live", "stream", p)
			setTarget(t, databaseURL, "live-stuck", "stream", p)
			orders, live := b.receive("orders"), p.listen("live")
			soon := func(int) time.Time { return time.Now().Add(time.Second) }
			const count = 200
			set := func(prefix string) {
				p.set("orders", prefix, count, soon)
				p.set("live", prefix, count, soon)
			}
			set("first")
			awaitRung(t, orders, count)
			awaitRung(t, live, count)

			g.set(true)
			eventually(t, "readiness names the target", func() bool {
				failing := p.details("target", statusFailing)
				return len(failing) == 1 && strings.HasPrefix(failing[0], "rabbitmq: ") &&
					slices.Equal(p.details("target", statusOK), []string{"stream", "webhook", "grpc", "pull"})
			})
			eventually(t, "the node lacks RabbitMQ",
				func() bool { return p.metric(`clockd_preload_ability_lost_seconds{ability="amqp"}`) > 0 })
			set("second")
			awaitRung(t, live, 2*count)
			if slices.ContainsFunc(orders.all(), func(r receivedRing) bool { return strings.HasPrefix(r.businessID, "second") }) {
				t.Error("rings arrived over RabbitMQ during the outage")
			}
			g.set(false)
			awaitRung(t, orders, 2*count)

			for i := range count {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("live-stuck", fmt.Sprint(i)),
					map[string]any{"delay": "1s", "text": strings.Repeat("x", 60_000)})
			}
			p.subscribeWithoutReading("live-stuck", 4<<10) // after the sets: the server soon closes the stream of a subscriber that does not read
			eventually(t, "rings of the stuck subscriber are awaited",
				func() bool { return p.metric("clockd_ring_awaited") > 0 })
			for i := range 5 {
				set(fmt.Sprint("third", i))
				awaitRung(t, orders, (3+i)*count)
				awaitRung(t, live, (3+i)*count)
			}
			if rung := p.inState("live-stuck", clock.Rung); rung == count {
				t.Error("the stuck subscriber got all its rings")
			}
			p.listen("live-stuck")
			eventually(t, "another subscriber takes the other rings",
				func() bool { return p.inState("live-stuck", clock.Rung) == count })
			for _, r := range slices.Concat(orders.all(), live.all()) {
				if r.arrived.Before(r.target) {
					t.Errorf("%s rang %s early", r.businessID, r.target.Sub(r.arrived))
				}
			}
		})
	}
}

// A subscriber that does not read is cut while a flush of rings is blocked. Each flush has one ring here. Only that
// ring is in doubt, and does not ring again, because it rings at most once. If no byte of it was written, it is not in
// doubt, but that is rare. The rings of the delivery that were not begun ring to the next subscriber.
func TestAtMostOnceRingsOfACutSubscriberRingAfterItsReconnect(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			p := startOn(t, e.open(t), nil)
			const count = 80
			begun := 0
			// A delivery has four rings of 64 KiB. The receive buffers differ by half a ring, so in some rounds the
			// blocked ring is not the last of its delivery.
			for _, readBuffer := range []int{4 << 10, 36 << 10, 68 << 10, 100 << 10} {
				application := fmt.Sprint("shop", readBuffer)
				for i := range count {
					p.must(http.StatusCreated, http.MethodPut, alarmPath(application, fmt.Sprint(i)),
						map[string]any{"delay": 0, "delivery": "at_most_once", "text": strings.Repeat("x", 65_500)})
				}
				cut := p.subscribeWithoutReading(application, readBuffer)
				var since time.Time // zero: none is awaited
				eventually(t, "a flush is blocked: rings of the subscriber are awaited for a second", func() bool {
					switch awaited := p.metric("clockd_ring_awaited"); {
					case awaited == 0:
						since = time.Time{}
					case since.IsZero():
						since = time.Now()
					}
					return !since.IsZero() && time.Since(since) >= time.Second
				})
				cut()
				eventually(t, "the cut is noticed", func() bool { return p.metric("clockd_ring_awaited") == 0 })
				again := p.listen(application)
				eventually(t, "nothing is under way", func() bool {
					return p.inState(application, clock.Rung) == count && p.metric("clockd_ring_heap_") == 0 &&
						p.metric("clockd_ring_awaited") == 0
				})
				distinct, copies := again.byID()
				doubtful := 0
				for i := range count {
					id := fmt.Sprint(i)
					if p.must(http.StatusOK, http.MethodGet, alarmPath(application, id), nil).InDoubt {
						if doubtful++; distinct[id] > 0 {
							t.Errorf("the ring of alarm %s is in doubt, and rang again", id)
						}
					}
					if copies[id] > 1 {
						t.Errorf("alarm %s rang %d times", id, copies[id])
					}
				}
				if doubtful > 1 || len(distinct) == 0 {
					t.Errorf("%d rings are in doubt, want the one that was begun; %d rang after the reconnect",
						doubtful, len(distinct))
				}
				begun += doubtful
			}
			if begun == 0 {
				t.Error("no cut left a ring in doubt")
			}
		})
	}
}

// subscribeWithoutReading opens the application's stream and reads nothing. cut resets the connection.
func (p *process) subscribeWithoutReading(application string, readBuffer int) (cut func()) {
	p.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(readBuffer)
	if _, err := fmt.Fprintf(conn, "GET /v1/applications/%s/rings HTTP/1.1\r\nHost: localhost\r\n\r\n", application); err != nil {
		p.t.Fatal(err)
	}
	return func() {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}
