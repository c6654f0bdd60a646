package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// Each statement takes 300 ms, so a look at the leases takes seconds. The node takes its shards all the same, and
// rings.
func TestNodeFarFromItsDatabaseRings(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb", "postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL, b := e.open(t), dialBroker(t, amqpURL())
			start(t, append(b.env(), "CLOCKD_DATABASE_URL="+databaseURL)...).kill() // it migrates the database
			g, through := newGate(t, databaseURL)
			g.slowDown(150 * time.Millisecond)
			rings := b.count("shop")
			p := start(t, append(b.env(), "CLOCKD_DATABASE_URL="+through)...)
			began := time.Now()
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "far"), map[string]any{"delay": "1s"})
			eventually(t, "the alarm rings",
				func() bool { return rings.Load() == 1 && p.inState("shop", clock.Rung) == 1 })
			t.Logf("rung after %s", time.Since(began))
			eventually(t, "the node has its leases", func() bool {
				status, _, _ := p.check("leases")
				return status == statusOK
			})
		})
	}
}

// A transaction of another service locks the leases while a node dies. The other node says in /readyz that it cannot
// take the free shards, until the lock ends. Then their alarms ring.
func TestNodeSaysThatItGetsNoLeases(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb", "postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL, b := e.open(t), dialBroker(t, amqpURL())
			rings := b.count("shop")
			dying, p := startOn(t, databaseURL, b), startOn(t, databaseURL, b)
			eventually(t, "each node has shards", func() bool {
				return dying.metric("clockd_preload_shards") > 0 && p.metric("clockd_preload_shards") > 0
			})
			unlock := lockRows(t, databaseURL, "SELECT * FROM shard FOR UPDATE")
			dying.kill()
			eventually(t, "the node says that it gets no leases", func() bool {
				status, detail, _ := p.check("leases")
				return status == statusFailing && strings.Contains(detail, "could not keep or take its leases")
			})
			unlock()
			const count = 20
			for i := range count {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", strconv.Itoa(i)),
					map[string]any{"delay": 0})
			}
			eventually(t, "the node has all leases", func() bool {
				status, _, _ := p.check("leases")
				return status == statusOK && rings.Load() == count && p.inState("shop", clock.Rung) == count
			})
		})
	}
}
