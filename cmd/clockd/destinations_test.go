package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/clockd/clockd/clock"
)

// Alarms of one application name its destinations: two endpoints and a routing key, beside the broker. One endpoint is
// away until all other alarms have rung. A node is killed in the middle. Each alarm rings at its own destination, none
// early, under one message id.
func TestAlarmsRingAtTheDestinationsTheyName(t *testing.T) {
	t.Parallel()
	databaseURL, b := postgres(t), dialBroker(t, amqpURL())
	refunds, refundsAddress := startHooks(t)
	stock, stockAddress, open := startGatedHooks(t)
	env := append([]string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1"}, b.env()...)
	survivor, victim := start(t, env...), start(t, env...)
	application(t, databaseURL, "set", "shop", "--retry=initial=100ms,cap=200ms")
	application(t, databaseURL, "set", "shop", "--destination=refunds", "--webhook-url="+refundsAddress+"/refunds",
		"--amqp=routing_key=shop-refunds")
	application(t, databaseURL, "set", "shop", "--destination=stock", "--webhook-url="+stockAddress+"/stock")
	applied := func() {
		t.Helper()
		for _, p := range []*process{survivor, victim} {
			eventually(t, "the node applies the settings",
				func() bool { s := p.settings("shop"); return s.AppliedVersion == s.Version })
		}
	}
	applied()
	got := map[string]*receiver{"": b.receive("shop"), "webhook/refunds": refunds.receiver,
		"amqp/refunds": b.receive("shop-refunds"), "webhook/stock": stock.receiver}
	names := []string{"", "webhook/refunds", "webhook/stock", "amqp/refunds"}
	const alarms = 400
	for i := range alarms {
		body := map[string]any{"delay": fmt.Sprintf("%dms", 1000+i*37%2500)}
		if name := names[i%4]; name != "" {
			body["target"] = name
		}
		victim.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("order-", i)), body)
	}
	eventually(t, "rings arrive", func() bool { return got["webhook/refunds"].number() > 0 })
	victim.kill()
	victim = survivor
	const away = alarms / 4
	eventually(t, "all alarms but for the ones of the endpoint that is away are over",
		func() bool { return survivor.inState("shop", clock.Rung) == alarms-away })
	var shown struct {
		Target   string          `json:"target"`
		Blockers []clock.Blocker `json:"blockers"`
	}
	eventually(t, "a waiting alarm tells its destination", func() bool {
		status, _, err := survivor.decode(http.MethodGet, alarmPath("shop", "order-2"), nil, &shown)
		return err == nil && status == http.StatusOK && len(shown.Blockers) > 0
	})
	if shown.Target != "webhook/stock" || shown.Blockers[0].Target != "webhook/stock" {
		t.Errorf("got %+v", shown)
	}
	open()
	eventually(t, "all alarms are over", func() bool { return survivor.inState("shop", clock.Rung) == alarms })
	arrived := map[string]string{} // message ids by business id and target
	for target, r := range got {
		for _, ring := range r.all() {
			key := ring.businessID + " at " + target
			if id, known := arrived[key]; known && id != ring.messageID {
				t.Errorf("%s rang as %s and as %s", key, id, ring.messageID)
			}
			if arrived[key] = ring.messageID; ring.arrived.Before(ring.target) {
				t.Errorf("%s rang early", key)
			}
		}
	}
	for i := range alarms {
		if key := fmt.Sprintf("order-%d at %s", i, names[i%4]); arrived[key] == "" {
			t.Errorf("no ring of %s", key)
		}
	}
	if len(arrived) != alarms {
		t.Errorf("%d alarms rang at %d places", alarms, len(arrived))
	}
}

// Alarms whose destination was removed are dead when they are due, with the reason, and ring after a kick once the
// destination is there again. Sets that name a missing destination are refused. The application's own alarms ring.
func TestAlarmsOfARemovedDestinationAreDead(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	h, address := startHooks(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1")
	set := func(args ...string) string {
		t.Helper()
		out := application(t, databaseURL, append([]string{"set", "shop"}, args...)...)
		eventually(t, "the node applies the settings",
			func() bool { s := p.settings("shop"); return s.AppliedVersion == s.Version })
		return out
	}
	endpoint := "--webhook-url=" + address + "/x"
	set("--target=webhook", endpoint)
	if out := set("--destination=refunds", endpoint); !strings.Contains(out, "webhook/refunds: url "+address+"/x") {
		t.Errorf("the settings are shown as %s", out)
	}
	ring := func(id, target string) {
		t.Helper()
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), map[string]any{"delay": "1s", "target": target})
	}
	unknown := func(target string) {
		t.Helper()
		r, err := p.do(http.MethodPut, alarmPath("shop", "refused"), map[string]any{"delay": "1s", "target": target})
		if err != nil || r.Status != http.StatusUnprocessableEntity || r.Code != clock.CodeUnknownDestination || r.Field != "target" {
			t.Errorf("%s: %+v, %v", target, r, err)
		}
	}
	unknown("webhook/returns")
	unknown("kafka/refunds")
	application(t, databaseURL, "pause", "shop") // else the alarm may ring before the destination is removed
	ring("orphan", "webhook/refunds")
	set("--drop-destination=refunds")
	application(t, databaseURL, "resume", "shop")
	ring("own", "webhook")
	eventually(t, "the alarm is dead", func() bool {
		return p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "orphan"), nil).State == "dead"
	})
	if r := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "orphan"), nil); !strings.Contains(r.LastError, "no longer have the destination") || len(r.Attempts) != 2 {
		t.Errorf("got %+v", r)
	}
	unknown("webhook/refunds")
	eventually(t, "the application's own alarm rings", func() bool { return h.number() == 1 })
	set("--destination=other", endpoint)
	set("--destination=refunds", endpoint)
	p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "orphan")+"/kick", nil)
	eventually(t, "the kicked alarm rings", func() bool {
		all := h.all()
		return len(all) == 2 && all[1].businessID == "orphan"
	})

	application(t, databaseURL, "pause", "shop")
	set("--max-rings=3")
	ring("paused", "webhook/refunds")
	eventually(t, "the due alarm waits", func() bool {
		var shown struct{ Blockers []clock.Blocker }
		_, _, err := p.decode(http.MethodGet, alarmPath("shop", "paused"), nil, &shown)
		return err == nil && len(shown.Blockers) == 1 && shown.Blockers[0].Code == clock.BlockedByPause
	})
	application(t, databaseURL, "resume", "shop")
	eventually(t, "the alarm rings after the pause", func() bool { return h.number() == 3 })
}

// startGatedHooks starts a server on the loopback interface that refuses rings until open is called.
func startGatedHooks(t *testing.T) (h *hooks, address string, open func()) {
	t.Helper()
	h = &hooks{receiver: &receiver{}}
	var isOpen atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOpen.Load() {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return h, server.URL, func() { isOpen.Store(true) }
}
