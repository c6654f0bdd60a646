package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/clockd/clockd/clock"
)

// hooks is a server that receives the rings of applications, each under a path with its name. It records the rings that
// it accepts.
type hooks struct {
	*receiver
	verifier *standardwebhooks.Webhook // nil: signatures are not checked
	faults   bool                      // some requests are refused, reset or slow
	refused  chan string               // capacity 1: a request that is not valid
}

// ServeHTTP accepts a ring, or makes a fault.
func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed
	}
	if h.verifier != nil {
		if err := h.verifier.Verify(body, r.Header); err != nil {
			select {
			case h.refused <- fmt.Sprintf("%v: %v", r.Header, err):
			default:
			}
		}
	}
	ms, _ := strconv.ParseInt(r.Header.Get("X-Clockd-Target-Ring-At"), 10, 64)
	id, _ := url.PathUnescape(r.Header.Get("X-Clockd-Business-Id"))
	ring := receivedRing{
		messageID: r.Header.Get("Webhook-Id"), businessID: id, claimID: r.Header.Get("X-Clockd-Claim-Id"),
		body: string(body), arrived: time.Now(),
		target: time.UnixMilli(ms),
	}
	if h.faults {
		switch rand.N(20) {
		case 0:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case 1:
			panic(http.ErrAbortHandler) // a reset connection: the sender cannot know whether the ring arrived
		case 2:
			time.Sleep(time.Second) //nolint:forbidigo // a slow receiver
		}
	}
	h.add(ring)
	w.WriteHeader(http.StatusNoContent)
}

// startHooks starts a server on the loopback interface.
func startHooks(t *testing.T) (h *hooks, address string) {
	t.Helper()
	h = &hooks{receiver: &receiver{}, refused: make(chan string, 1)}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return h, server.URL
}

// Receivers refuse some rings, reset some connections and are slow. A node is killed in the middle. Every alarm
// arrives, none early, and all copies of a ring have one message id and a valid signature.
func TestWebhooksRingAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			h, address := startHooks(t)
			h.faults = true
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1"}
			survivor := start(t, env...)
			victim := survivor
			if e.name != "sqlite" { // a file has one node
				victim = start(t, env...)
			}
			secret := application(t, databaseURL, "set", "shop", "--target=webhook", "--webhook-url="+address+"/shop",
				"--webhook=timeout=5s")
			_, secret, _ = strings.Cut(secret, "new signing secret: ")
			var err error
			if h.verifier, err = standardwebhooks.NewWebhook(strings.TrimSpace(secret)); err != nil {
				t.Fatal(err)
			}
			for _, p := range []*process{survivor, victim} {
				eventually(t, "the node applies the target",
					func() bool { return p.settings("shop").AppliedTarget == "webhook" })
			}
			const alarms = 400
			for i := range alarms {
				victim.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("order/%d", i)),
					map[string]any{"delay": fmt.Sprintf("%dms", 500+i*37%2500), "payload": i,
						"retry": map[string]any{"initial": "100ms", "cap": "1s"}})
			}
			eventually(t, "rings arrive", func() bool { return h.number() > alarms/10 })
			victim.kill()
			if victim == survivor {
				survivor = start(t, env...)
			}
			eventually(t, "all alarms have rung", func() bool { return survivor.inState("shop", clock.Rung) == alarms })
			distinct, copies := h.byID()
			for i := range alarms {
				if id := fmt.Sprintf("order/%d", i); distinct[id] != 1 {
					t.Errorf("alarm %s arrived under %d message ids", id, distinct[id])
				}
			}
			for _, r := range h.all() {
				if r.arrived.Before(r.target) {
					t.Errorf("%s rang %s early", r.businessID, r.target.Sub(r.arrived))
				}
			}
			if rung := survivor.inState("shop", clock.Rung); rung != alarms || len(copies) != alarms {
				t.Errorf("%d of %d alarms are rung, %d arrived", rung, alarms, len(copies))
			}
			select {
			case r := <-h.refused:
				t.Errorf("a request without a valid signature: %s", r)
			default:
			}
			t.Logf("%d rings, %d of them copies", h.number(), h.number()-alarms)
		})
	}
}

// A node that is not allowed to reach its own network does not. The alarm waits, and says why.
func TestWebhooksReachOnlyPublicAddresses(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
	h, address := startHooks(t)
	for name, u := range map[string]string{
		"a": address, "b": strings.Replace(address, "127.0.0.1", "localhost", 1),
		"c": strings.Replace(address, "127.0.0.1", "[::ffff:127.0.0.1]", 1),
		"d": "http://169.254.169.254/latest/meta-data/",
	} {
		application(t, databaseURL, "set", name, "--target=webhook", "--webhook-url="+u)
		eventually(t, "the node applies the target", func() bool { return p.settings(name).AppliedTarget == "webhook" })
		p.must(http.StatusCreated, http.MethodPut, alarmPath(name, "1"), map[string]any{"delay": "0s"})
		eventually(t, "the alarm says why it does not ring", func() bool {
			a := p.must(http.StatusOK, http.MethodGet, alarmPath(name, "1"), nil)
			return strings.Contains(a.LastError, "not public")
		})
	}
	if h.number() != 0 {
		t.Errorf("%d rings reached a refused address", h.number())
	}
}

// A receiver decides by its status: 410 ends the alarm, and 202 waits for an acknowledgement.
func TestWebhookStatusDecides(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.0/8")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.Header.Get("X-Clockd-Business-Id"))
		w.WriteHeader(status)
	}))
	t.Cleanup(server.Close)
	application(t, databaseURL, "set", "shop", "--target=webhook", "--webhook-url="+server.URL, "--ack-timeout=1m")
	eventually(t, "the node applies the target", func() bool { return p.settings("shop").AppliedTarget == "webhook" })
	for status, want := range map[string]string{"200": "rung", "202": "ringing", "410": "dead"} {
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", status), map[string]any{"delay": "0s"})
		eventually(t, status+" makes the alarm "+want, func() bool {
			return p.must(http.StatusOK, http.MethodGet, alarmPath("shop", status), nil).State == want
		})
	}
}
