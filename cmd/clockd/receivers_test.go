package main

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// calls is a server that takes rings, and notes how each came.
type calls struct {
	*hooks

	mu   sync.Mutex
	came map[string]string // by business id: method, path and headers
}

// startCalls starts a server on the loopback interface.
func startCalls(t *testing.T) (c *calls, address string) {
	t.Helper()
	c = &calls{hooks: &hooks{receiver: &receiver{}}, came: map[string]string{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, server.URL
}

// ServeHTTP notes a ring, and takes it.
func (c *calls) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.came[r.Header.Get("X-Clockd-Business-Id")] = strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.URL,
		r.Header.Get("Authorization"), r.Header.Get("X-Order")))
	c.mu.Unlock()
	c.hooks.ServeHTTP(w, r)
}

// of returns how the ring of an alarm came, "" for no ring.
func (c *calls) of(businessID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came[businessID]
}

// Alarms of one application bring receivers of their own: a URL of the application's server, a URL of another one, and
// a routing key. A node is killed in the middle. Each alarm rings at its own receiver with its own fields, none early,
// under one message id. Headers of the settings stay with their server.
func TestAlarmsRingAtReceiversOfTheirOwn(t *testing.T) {
	t.Parallel()
	databaseURL, b := postgres(t), dialBroker(t, amqpURL())
	home, homeAddress := startCalls(t)
	away, awayAddress := startCalls(t)
	env := append([]string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1"}, b.env()...)
	survivor, victim := start(t, env...), start(t, env...)
	application(t, databaseURL, "set", "shop", "--target=webhook", "--alarm-targets=amqp",
		"--webhook-url="+homeAddress+"/rings",
		"--webhook-header=Authorization=secret", "--webhook-alarm-field=method=*", "--webhook-alarm-field=headers=x-*",
		"--webhook-alarm-field=url="+homeAddress+"/jobs/*", "--webhook-alarm-field=url="+awayAddress+"/*",
		"--amqp-alarm-field=routing_key=shop-*", "--amqp-alarm-field=headers=x-order",
		"--amqp-alarm-field=expiration=*")
	for _, p := range []*process{survivor, victim} {
		eventually(t, "the node applies the settings",
			func() bool { s := p.settings("shop"); return s.AppliedVersion == s.Version })
	}
	var mu sync.Mutex
	headers := map[string]string{} // of messages, by business id
	keyed := &receiver{}
	b.consume("shop-own", func(d amqp.Delivery) {
		mu.Lock()
		headers[d.CorrelationId] = fmt.Sprint(d.RoutingKey, " ", d.Headers["x-order"], " ", d.Expiration)
		mu.Unlock()
		keyed.add(receivedRing{messageID: d.MessageId, businessID: d.CorrelationId})
	})
	const alarms = 400
	for i := range alarms {
		id := fmt.Sprint("order-", i)
		body := map[string]any{"delay": fmt.Sprintf("%dms", 1000+i*37%2500), "target": "webhook"}
		switch i % 4 {
		case 1:
			body["receiver"] = map[string]any{"url": homeAddress + "/jobs/" + id + "?a=b", "method": "PUT",
				"headers": map[string]string{"X-Order": id}}
		case 2:
			body["receiver"] = map[string]any{"url": awayAddress + "/" + id, "method": "DELETE"}
		case 3:
			body["target"] = "amqp"
			body["receiver"] = map[string]any{"routing_key": "shop-own", "headers": map[string]string{"x-order": id},
				"expiration": "1h"}
		}
		victim.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), body)
	}
	eventually(t, "rings arrive", func() bool { return home.number() > 0 })
	victim.kill()
	eventually(t, "all alarms are over", func() bool { return survivor.inState("shop", clock.Rung) == alarms })
	for i := range alarms {
		id := fmt.Sprint("order-", i)
		want := []string{"POST /rings secret", "PUT /jobs/" + id + "?a=b secret " + id, "DELETE /" + id,
			"shop-own " + id + " 3600000"}[i%4]
		mu.Lock()
		got := home.of(id) + away.of(id) + headers[id]
		mu.Unlock()
		if got != want {
			t.Errorf("%s came as %q, want %q", id, got, want)
		}
	}
	arrived := map[string]string{} // message ids by business id
	for _, r := range []*receiver{home.receiver, away.receiver, keyed} {
		for _, ring := range r.all() {
			if id, known := arrived[ring.businessID]; known && id != ring.messageID {
				t.Errorf("%s rang as %s and as %s", ring.businessID, id, ring.messageID)
			}
			if arrived[ring.businessID] = ring.messageID; ring.arrived.Before(ring.target) {
				t.Errorf("%s rang early", ring.businessID)
			}
		}
	}
	if len(arrived) != alarms {
		t.Errorf("%d alarms rang", len(arrived))
	}
}

// The settings decide at the set, and again when the alarm rings. People do not see what may be secret.
func TestReceiversThatTheSettingsDoNotAllow(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			c, address := startCalls(t)
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1"}
			p := start(t, env...)
			settings := func(args ...string) {
				t.Helper()
				application(t, databaseURL, append([]string{"set", "shop"}, args...)...)
				eventually(t, "the node applies the settings",
					func() bool { s := p.settings("shop"); return s.AppliedVersion == s.Version })
			}
			settings("--target=webhook", "--webhook-url="+address+"/rings")
			refused := func(code, field string, receiver any) {
				t.Helper()
				body := map[string]any{"delay": "1h", "target": "webhook", "receiver": receiver}
				r, err := p.do(http.MethodPut, alarmPath("shop", "refused"), body)
				if err != nil || r.Status != http.StatusUnprocessableEntity || r.Code != code || r.Field != field {
					t.Errorf("%v: %+v, %v", receiver, r, err)
				}
			}
			refused(clock.CodeReceiverNotAllowed, "receiver.method", map[string]any{"method": "PUT"})
			settings("--webhook-alarm-field=method=PUT", "--webhook-alarm-field=url="+address+"/jobs/*",
				"--webhook-alarm-field=headers=x-*")
			refused(clock.CodeReceiverNotAllowed, "receiver.method", map[string]any{"method": "DELETE"})
			refused(clock.CodeReceiverNotAllowed, "receiver.url", map[string]any{"url": address + "/rings"})
			refused(clock.CodeInvalidValue, "receiver.method", map[string]any{"method": "CONNECT"})
			refused(clock.CodeUnknownField, "receiver.secrets", map[string]any{"secrets": []string{}})
			refused(clock.CodeInvalidValue, "receiver", "POST")
			refused(clock.CodeOutOfRange, "receiver", map[string]any{"url": strings.Repeat("x", clock.MaxReceiver)})
			put := map[string]any{"method": "PUT"}
			refused(clock.CodeOutOfRange, "receiver",
				map[string]any{"headers": map[string]string{"x-a": strings.Repeat("<", 1000)}}) // stored as \u003c
			r, err := p.do(http.MethodPut, alarmPath("shop", "refused"), map[string]any{"delay": "1h", "receiver": put})
			if err != nil || r.Code != clock.CodeRequired || r.Field != "target" {
				t.Errorf("without a target: %+v, %v", r, err)
			}

			own := func(path string) map[string]any {
				return map[string]any{"delay": "1s", "target": "webhook",
					"receiver": map[string]any{"url": address + path, "headers": map[string]string{"x-order": "7"}}}
			}
			late := own("/jobs/late?token=hush")
			once, limited := maps.Clone(late), maps.Clone(late)
			once["delivery"], limited["retry"] = "at_most_once", map[string]any{"limit": 0}
			application(t, databaseURL, "pause", "shop") // else the alarms may ring before the settings have changed
			for id, body := range map[string]any{"late": late, "once": once, "limited": limited} {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), body)
			}
			settings("--webhook-alarm-field=url=" + address + "/others/*")
			application(t, databaseURL, "resume", "shop")
			for _, id := range []string{"late", "once", "limited"} {
				eventually(t, "the alarm is dead", func() bool {
					return p.must(http.StatusOK, http.MethodGet, alarmPath("shop", id), nil).State == "dead"
				})
				if r := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", id), nil); len(r.Attempts) != 2 ||
					!strings.HasSuffix(r.LastError, "no longer allow what the alarm brings itself: url") {
					t.Errorf("%s: %+v", id, r)
				}
			}
			settings("--webhook-alarm-field=url=" + address + "/jobs/*")
			for _, id := range []string{"late", "once", "limited"} {
				p.must(http.StatusOK, http.MethodPost, alarmPath("shop", id)+"/kick", nil)
			}
			for _, id := range []string{"late", "once", "limited"} {
				eventually(t, "the kicked alarm rings", func() bool { return c.of(id) != "" })
			}
			if got := c.of("late"); got != "POST /jobs/late?token=hush  7" {
				t.Errorf("it came as %q", got)
			}
			var shown struct {
				Receiver map[string]any
			}
			if _, _, err := p.decode(http.MethodGet, alarmPath("shop", "late"), nil, &shown); err != nil ||
				fmt.Sprint(shown.Receiver) != "map[headers:map[x-order:...] url:"+address+"/jobs/late?...]" {
				t.Errorf("people see %v, %v", shown.Receiver, err)
			}

			out, code := typed(t, append(env, "CLOCKD_SERVER="+p.url), "set", "shop", "typed", "--in=1h",
				"--target=webhook", `--receiver={"method": "PUT"}`)
			if code != 0 || !strings.Contains(out, "  target: webhook\n  receiver: {\"method\":\"PUT\"}\n") {
				t.Errorf("code %d: %s", code, out)
			}
			for i, step := range []struct {
				receiver   map[string]any
				generation int64
			}{{put, 1}, {map[string]any{"url": nil, "method": "PUT"}, 1}, {nil, 2}, {put, 3}} {
				body := map[string]any{"ring_at": "2100-01-01T00:00:00Z", "target": "webhook", "receiver": step.receiver}
				var alarm struct{ Generation int64 }
				_, _, err := p.decode(http.MethodPut, alarmPath("shop", "again"), body, &alarm)
				if err != nil || alarm.Generation != step.generation {
					t.Errorf("set %d made generation %d, %v", i, alarm.Generation, err)
				}
			}

			application(t, databaseURL, "pause", "shop")
			settings("--max-rings=3")
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "paused"), own("/jobs/paused"))
			eventually(t, "the due alarm waits", func() bool {
				var shown struct{ Blockers []clock.Blocker }
				_, _, err := p.decode(http.MethodGet, alarmPath("shop", "paused"), nil, &shown)
				return err == nil && len(shown.Blockers) == 1 && shown.Blockers[0].Code == clock.BlockedByPause
			})
			application(t, databaseURL, "resume", "shop")
			eventually(t, "the alarm rings after the pause", func() bool { return c.of("paused") != "" })
		})
	}
}
