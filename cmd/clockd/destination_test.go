package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The settings of an application name an exchange and a routing key. Its rings go there, unless the node does not allow
// the exchange: then they wait, untried, until the settings name another one.
func TestRingsGoToTheExchangeOfTheirApplication(t *testing.T) {
	t.Parallel()
	d, databaseURL := delayedMessages(t), sqliteFile(t)
	p := start(t, append(d.env(), "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_AMQP_EXCHANGES="+d.target)...)
	own, other := d.receive("shop"), d.take(d.target)
	ring := func(id string) {
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), map[string]any{"delay": 0})
	}
	applied := func() bool { s := p.settings("shop"); return s.AppliedVersion == s.Version }

	ring("own")
	eventually(t, "a ring in the exchange of the process", func() bool { return own.number() == 1 })

	application(t, databaseURL, "set", "shop", "--amqp=exchange="+d.target+",routing_key=order.due")
	eventually(t, "the node applies the destination", applied)
	ring("other")
	eventually(t, "a ring in the other exchange", func() bool { return other.count() == 1 })
	for _, arrivals := range other.got {
		if a := arrivals[0]; a.RoutingKey != "order.due" || a.Headers["x-business-id"] != "other" {
			t.Errorf("the ring is %+v", a.Delivery)
		}
	}

	application(t, databaseURL, "set", "shop", "--amqp=exchange=amq.topic")
	eventually(t, "the node applies the destination", applied)
	ring("refused")
	eventually(t, "a warning", func() bool {
		ready := p.must(http.StatusOK, http.MethodGet, "/readyz", nil)
		for _, c := range ready.Checks {
			if c.Name == "settings" && strings.Contains(c.Detail, `does not allow the exchange "amq.topic"`) {
				return true
			}
		}
		return false
	})
	time.Sleep(2 * time.Second) // a try would have come long before
	if a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "refused"), nil); a.State != "scheduled" ||
		a.RetryTimes != 0 {
		t.Errorf("the alarm is %+v", a)
	}
	application(t, databaseURL, "set", "shop", "--unset=amqp")
	eventually(t, "a ring in the exchange of the process", func() bool { return own.number() == 2 })
}

// An exchange that refuses publishing leaves no ring in doubt, also if several rings go there at once. Retries end at
// their limit, and a cancel succeeds.
func TestRefusingExchangeLeavesNoAlarmInDoubt(t *testing.T) {
	t.Parallel()
	d, databaseURL := delayedMessages(t), sqliteFile(t)
	internal := d.exchange + ".internal"
	d.must(d.ch.ExchangeDeclare(internal, "fanout", true, false, true, false, nil))
	t.Cleanup(func() { _ = d.ch.ExchangeDelete(internal, false, false) })
	p := start(t, append(d.env(), "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_AMQP_EXCHANGES="+internal)...)
	destination := func(exchange string) {
		application(t, databaseURL, "set", "shop", "--amqp=exchange="+exchange)
		eventually(t, "the node applies the destination",
			func() bool { s := p.settings("shop"); return s.AppliedVersion == s.Version })
	}
	failures := map[string]int{} // number of tries that fail, by business id
	set := func(id string, retry map[string]any, failed int) {
		failures[id] = failed
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), map[string]any{"delay": 0, "retry": retry})
	}
	destination("amq.topic") // the node does not allow this exchange, so that all alarms wait
	for i := range 3 {
		set(fmt.Sprint("limited", i), map[string]any{"initial": 20, "limit": 1}, 2)
		set(fmt.Sprint("cancelled", i), map[string]any{"initial": "1h", "cap": "1h"}, 1)
	}
	destination(internal)
	for id, failed := range failures {
		var a response
		eventually(t, "the alarm was tried", func() bool {
			a = p.must(http.StatusOK, http.MethodGet, alarmPath("shop", id), nil)
			return a.RetryTimes == failed && (a.State == "dead") == strings.HasPrefix(id, "limited") &&
				a.LastError != ""
		})
		if a.InDoubt || !strings.Contains(a.LastError, "internal exchange") ||
			strings.Contains(fmt.Sprint(a.Attempts), "in_doubt") {
			t.Errorf("alarm %s is %+v", id, a)
		}
		if a.State == "dead" {
			continue
		}
		if a := p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", id), nil); a.State != "cancelled" {
			t.Errorf("alarm %s is %+v", id, a)
		}
	}
}
