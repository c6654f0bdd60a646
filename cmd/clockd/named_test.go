package main

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// Alarms of one application name the broker, its stream, its endpoint and its workers, or no target. A node is killed
// in the middle. Each alarm rings at its own target, none early, under one message id. After the settings allow the
// endpoint no longer, its alarms ring to the target of the application.
func TestAlarmsRingAtTheTargetsTheyName(t *testing.T) {
	t.Parallel()
	databaseURL, b := postgres(t), dialBroker(t, amqpURL())
	h, address := startHooks(t)
	env := append([]string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1"}, b.env()...)
	survivor, victim := start(t, env...), start(t, env...)
	application(t, databaseURL, "set", "shop", "--target=amqp", "--alarm-targets=stream,webhook,pull",
		"--webhook-url="+address+"/shop")
	applied := func() {
		t.Helper()
		for _, p := range []*process{survivor, victim} {
			eventually(t, "the node applies the settings",
				func() bool { s := p.settings("shop"); return s.AppliedVersion == s.Version })
		}
	}
	applied()
	got := map[string]*receiver{"amqp": b.receive("shop"), "stream": survivor.listen("shop"), "webhook": h.receiver,
		"pull": {}}
	var working sync.WaitGroup
	t.Cleanup(working.Wait)
	working.Go(func() { survivor.finishRings(t, "shop", got["pull"]) })

	names := []string{"", "stream", "webhook", "pull", "amqp"}
	const alarms = 400
	for i := range alarms {
		body := map[string]any{"delay": fmt.Sprintf("%dms", 1000+i*37%2500)}
		if name := names[i%5]; name != "" {
			body["target"] = name
		}
		victim.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("order-", i)), body)
	}
	eventually(t, "rings arrive everywhere", func() bool {
		for _, r := range got {
			if r.number() == 0 {
				return false
			}
		}
		return true
	})
	victim.kill()
	victim = survivor
	eventually(t, "all alarms are over", func() bool { return survivor.inState("shop", clock.Rung) == alarms })
	eventually(t, "all rings are consumed", func() bool {
		places := 0
		for _, r := range got {
			distinct, _ := r.byID()
			places += len(distinct)
		}
		return places >= alarms
	})
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
		target := names[i%5]
		if target == "" {
			target = "amqp"
		}
		if key := fmt.Sprintf("order-%d at %s", i, target); arrived[key] == "" {
			t.Errorf("no ring of %s", key)
		}
	}
	if len(arrived) != alarms {
		t.Errorf("%d alarms rang at %d places", alarms, len(arrived))
	}

	survivor.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "withdrawn"),
		map[string]any{"delay": "3s", "target": "webhook"})
	application(t, databaseURL, "set", "shop", "--alarm-targets=stream,pull")
	applied()
	eventually(t, "the alarm rings to the target of its application", func() bool {
		all := got["amqp"].all()
		return len(all) > 0 && all[len(all)-1].businessID == "withdrawn"
	})
	if r, err := survivor.do(http.MethodPut, alarmPath("shop", "refused"), map[string]any{"delay": "3s", "target": "webhook"}); err != nil || r.Status != 422 || r.Code != clock.CodeTargetNotAllowed {
		t.Errorf("a target that is not allowed: %+v, %v", r, err)
	}
}

// finishRings reserves and finishes the application's rings until the test ends, and collects them.
func (p *process) finishRings(t *testing.T, application string, r *receiver) {
	t.Helper()
	worker := p.worker()
	for t.Context().Err() == nil {
		rings, err := worker.Reserve(t.Context(), application, 10, time.Second)
		if err != nil {
			continue
		}
		for _, ring := range rings {
			r.add(receivedRing{messageID: ring.MessageID, businessID: ring.BusinessID, arrived: time.Now(),
				target: ring.RingAt})
			if _, err := worker.Ack(t.Context(), application, ring.MessageID); err != nil && t.Context().Err() == nil {
				t.Errorf("finish %s: %v", ring.BusinessID, err)
			}
		}
	}
}
