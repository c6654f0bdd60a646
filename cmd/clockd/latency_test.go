package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// Each statement takes 300 ms, so a look at the leases takes seconds. The node takes its shards all the same, and rings.
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
			eventually(t, "the alarm rings", func() bool { return rings.Load() == 1 && p.inState("shop", clock.Rung) == 1 })
			t.Logf("rung after %s", time.Since(began))
			eventually(t, "the node has its leases", func() bool {
				status, _, _ := p.check("leases")
				return status == statusOK
			})
		})
	}
}
