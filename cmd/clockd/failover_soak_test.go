//go:build soak

package main

import (
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// PostgreSQL with a synchronous standby is killed under load, and the standby is promoted. The URL of the nodes names
// both servers.
func TestSoakPostgreSQLFailoverLosesNoAcceptedRequest(t *testing.T) {
	s := startPrivateServers(t, "postgresql", "postgresql2")
	base := parse(t, s.env["CLOCKD_TEST_POSTGRES_URL"])
	base.Host += ",127.0.0.1:" + s.port("postgresql2")
	failOverUnderLoad(t, base.String(), func() {
		s.do("kill", "postgresql")
		s.do("promote", "postgresql2")
	})
}

// The writer of a Galera cluster is killed under load. A proxy leads all connections to one server: first to the
// writer, then to the second server, as soon as that one belongs to the majority of the cluster again.
func TestSoakGaleraFailoverLosesNoAcceptedRequest(t *testing.T) {
	s, g, databaseURL := startGalera(t)
	failOverUnderLoad(t, databaseURL, func() {
		s.do("kill", "galera")
		g.set(true)
		s.awaitMembers("galera2", 2)
		g.redirect("127.0.0.1:" + s.port("galera2"))
	})
}

// A Galera server still has to apply commits of the other servers when the connections move to it. Nothing is read
// there before.
func TestSoakGaleraServerThatLagsIsNotRead(t *testing.T) {
	s, g, databaseURL := startGalera(t)
	p := startOn(t, databaseURL, dialBroker(t, amqpURL()))
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "kept"), map[string]any{"delay": "1h"})
	behind, err := sql.Open("mysql", "clockd:clockd@tcp(127.0.0.1:"+s.port("galera2")+")/clockd")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = behind.Close() }()
	behind.SetMaxOpenConns(1)
	if _, err := behind.Exec("FLUSH TABLES WITH READ LOCK"); err != nil { // the server applies nothing
		t.Fatal(err)
	}
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "late"), map[string]any{"delay": "1h"})
	p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "kept"), nil)
	g.redirect("127.0.0.1:" + s.port("galera2"))
	for range 2 {
		if a, err := p.do(http.MethodGet, alarmPath("shop", "late"), nil); err != nil ||
			a.Status != http.StatusServiceUnavailable {
			t.Errorf("an alarm whose set was not applied: %+v, %v", a, err)
		}
	}
	if _, err := behind.Exec("UNLOCK TABLES"); err != nil {
		t.Fatal(err)
	}
	p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "late"), nil)
	if a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "kept"), nil); a.State != "cancelled" {
		t.Errorf("a cancelled alarm: %+v", a)
	}
}

// A Galera server begins to refuse queries, as it does outside the majority, and its connections stay open. clockd
// gives them up, and new connections lead to another server.
func TestSoakGaleraServerThatRefusesQueriesIsLeft(t *testing.T) {
	s, g, databaseURL := startGalera(t)
	p := startOn(t, databaseURL, dialBroker(t, amqpURL()))
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "before"), map[string]any{"delay": "1h"})
	g.lead("127.0.0.1:" + s.port("galera2"))
	s.do("ctl", "galera", "--execute", "SET GLOBAL wsrep_reject_queries = ALL")
	for i := range 20 { // on all connections
		p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "before"), nil)
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("after-", i)),
			map[string]any{"delay": "1h"})
	}
	p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "before"), nil)
}

// startGalera starts a cluster of three servers, and a gate to the first server.
func startGalera(t *testing.T) (s *services, g *gate, databaseURL string) {
	t.Helper()
	s = startPrivateServers(t, "galera", "galera2", "galera3")
	s.awaitMembers("galera", 3)
	g, databaseURL = newGate(t, "mysql://clockd:clockd@127.0.0.1:"+s.port("galera")+"/clockd")
	return s, g, databaseURL
}

// port returns the service's port.
func (s *services) port(service string) string {
	s.t.Helper()
	return strings.TrimSpace(s.do("port", service))
}

// awaitMembers waits until the server takes queries and belongs to a majority of so many servers.
func (s *services) awaitMembers(service string, count int) {
	s.t.Helper()
	want := fmt.Sprintf("ON %d Primary", count)
	eventually(s.t, service+" is "+want, func() bool {
		got := s.do("ctl", service, "--batch", "--skip-column-names", "--execute",
			"SHOW STATUS WHERE Variable_name IN ('wsrep_cluster_size', 'wsrep_cluster_status', 'wsrep_ready')")
		values := map[string]string{}
		for line := range strings.Lines(got) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
				values[name] = value
			}
		}
		return values["wsrep_ready"]+" "+values["wsrep_cluster_size"]+" "+values["wsrep_cluster_status"] == want
	})
}

// redirect cuts all connections, and opens the gate to another server.
func (g *gate) redirect(server string) {
	g.lead(server)
	g.set(false)
}

// lead leads new connections to another server.
func (g *gate) lead(server string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.server = server
}

// loadedAlarm is one alarm of the load, with the responses to its requests.
type loadedAlarm struct {
	id        string
	due       time.Time
	unclear   bool      // a request had no clear response and was repeated
	set       bool      // a set was accepted
	cancelled time.Time // arrival of the response that the alarm is cancelled; zero: it is not
	refused   string    // code of the refused cancel
}

// failoverLoad sends sets and cancels to nodes until it is stopped. Each client is paced, and repeats a request until
// its response is clear.
type failoverLoad struct {
	t       *testing.T
	nodes   []*process
	stop    chan struct{}
	clients sync.WaitGroup
	wrong   atomic.Int64 // cancels whose response no accepted set explains

	mu     sync.Mutex
	alarms []*loadedAlarm
}

const (
	loadClients = 16
	loadPace    = 60 * time.Millisecond // between two sets of one client
	loadCancels = 3                     // every so many alarms, one is cancelled
	loadAhead   = 8                     // sets between the set and the cancel of one alarm
)

// loadDelays are the times from a set to the due time. Alarms are due before, during and after the failover.
var loadDelays = []time.Duration{
	100 * time.Millisecond, time.Second, 3 * time.Second, 6 * time.Second, 10 * time.Second, 15 * time.Second,
	20 * time.Second,
}

// startLoad starts the clients.
func startLoad(t *testing.T, nodes ...*process) *failoverLoad {
	l := &failoverLoad{t: t, nodes: nodes, stop: make(chan struct{})}
	for c := range loadClients {
		l.clients.Go(func() { l.run(c) })
	}
	return l
}

// run is one client.
func (l *failoverLoad) run(client int) {
	pace := time.NewTicker(loadPace)
	defer pace.Stop()
	var own []*loadedAlarm
	for i := 0; ; i++ {
		a := &loadedAlarm{id: fmt.Sprintf("load-%d-%d", client, i),
			due: time.Now().Add(loadDelays[i%len(loadDelays)]).Truncate(time.Millisecond)}
		own = append(own, a)
		l.setOne(i, a)
		if k := i - loadAhead; k >= 0 && k%loadCancels == 0 && own[k].set {
			l.cancelOne(i, own[k])
		}
		select {
		case <-pace.C:
		case <-l.stop:
			l.keep(own)
			return
		}
	}
}

// keep keeps the alarms of a client that has ended.
func (l *failoverLoad) keep(own []*loadedAlarm) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarms = append(l.alarms, own...)
}

// setOne sets the alarm.
func (l *failoverLoad) setOne(turn int, a *loadedAlarm) {
	got := l.send(turn, a, http.MethodPut, map[string]any{"ring_at": a.due.UnixMilli()})
	if a.set = got.Status == http.StatusOK || got.Status == http.StatusCreated; !a.set {
		l.t.Errorf("set of %s: %+v", a.id, got)
	}
}

// cancelOne cancels the alarm. An alarm that has rung meanwhile is refused.
func (l *failoverLoad) cancelOne(turn int, a *loadedAlarm) {
	got := l.send(turn, a, http.MethodDelete, nil)
	switch {
	case got.Status == http.StatusOK:
		a.cancelled = time.Now()
	case got.Status == http.StatusConflict && (got.Code == "already_rung" || got.Code == "ring_in_doubt"):
		a.refused = got.Code
	default:
		a.refused = got.Code
		if l.wrong.Add(1) <= 10 {
			l.t.Errorf("cancel of %s, whose set was accepted: %+v", a.id, got)
		}
	}
}

// send sends the request, by turns to all nodes, until the response is clear.
func (l *failoverLoad) send(turn int, a *loadedAlarm, method string, body any) (got response) {
	deadline := time.Now().Add(giveUpAfter)
	for {
		var err error
		got, err = l.nodes[turn%len(l.nodes)].do(method, alarmPath("shop", a.id), body)
		if err == nil && got.Status != http.StatusServiceUnavailable {
			return got
		}
		a.unclear = a.unclear || err != nil || got.Code == "unconfirmed"
		if time.Now().After(deadline) {
			return got
		}
		<-time.After(100 * time.Millisecond)
		turn++
	}
}

// end stops the clients, when each has a clear response to its last request, and returns all alarms.
func (l *failoverLoad) end() []*loadedAlarm {
	close(l.stop)
	l.clients.Wait()
	return l.alarms
}

// failOverUnderLoad runs three nodes on the database, kills the database's primary under load, and goes on with its
// successor. Every accepted set that no accepted cancel ends must ring. An alarm that was cancelled before its time
// must not ring.
func failOverUnderLoad(t *testing.T, databaseURL string, failOver func()) {
	t.Helper()
	b := dialBroker(t, amqpURL())
	var nodes []*process
	for _, name := range []string{"one", "two", "three"} {
		nodes = append(nodes, startNamed(t, name, databaseURL, b))
	}
	nodes[0].awaitShares("three nodes", 22, 21, 21)
	got := b.receive("shop")
	load := startLoad(t, nodes...)
	eventually(t, "alarms ring under load", func() bool { return got.number() > 500 })
	begun := time.Now()
	failOver()
	failed := time.Since(begun)
	nodes[0].must(http.StatusCreated, http.MethodPut, alarmPath("shop", "first"), map[string]any{"delay": 0})
	back := time.Since(begun)
	before := got.number()
	eventually(t, "alarms ring after the failover", func() bool { return got.number() > before+2000 })
	alarms := load.end()
	t.Logf("failed over in %s; the first set was accepted after %s", failed.Round(time.Millisecond),
		back.Round(time.Millisecond))
	judgeFailover(t, nodes[0], alarms, got)
}

// judgeFailover waits until no alarm can ring any more, and compares the rings with the responses.
func judgeFailover(t *testing.T, p *process, alarms []*loadedAlarm, got *receiver) {
	t.Helper()
	eventually(t, "no alarm is scheduled or ringing",
		func() bool { return p.inState("shop", clock.Scheduled)+p.inState("shop", clock.Ringing) == 0 })
	eventually(t, "the broker has delivered every ring", func() bool {
		_, copies := got.byID()
		return !slices.ContainsFunc(alarms, func(a *loadedAlarm) bool {
			if !a.cancelled.IsZero() || copies[a.id] > 0 {
				return false
			}
			now, err := p.do(http.MethodGet, alarmPath("shop", a.id), nil)
			return err != nil || now.Status == http.StatusServiceUnavailable || now.State == "rung"
		})
	})
	requireRingsOfTheirOwnTime(t, got)
	requireAcceptedRequestsKept(t, alarms, got)
}

// requireRingsOfTheirOwnTime checks that no ring is early, and that no two alarms rang under one message id.
func requireRingsOfTheirOwnTime(t *testing.T, got *receiver) {
	t.Helper()
	owners := map[string]string{} // by message id
	shared := 0
	for _, r := range got.all() {
		if owner, known := owners[r.messageID]; known && owner != r.businessID {
			shared++
		}
		owners[r.messageID] = r.businessID
		if early := r.target.Sub(r.arrived); early > 0 {
			t.Errorf("%s rang %s early", r.businessID, early)
		}
	}
	if shared > 0 {
		t.Errorf("%d rings have the message id of another alarm", shared)
	}
}

// requireAcceptedRequestsKept checks the rings of each alarm against the responses to its requests, and logs the
// figures.
func requireAcceptedRequestsKept(t *testing.T, alarms []*loadedAlarm, got *receiver) {
	t.Helper()
	const shown = 10
	_, copies := got.byID()
	n := map[string]int{"lost": 0, "rung after a cancel": 0}
	broken := func(what string, a *loadedAlarm) {
		t.Helper()
		if n[what]++; n[what] <= shown {
			t.Errorf("%s: %+v", what, *a)
		}
	}
	for _, a := range alarms {
		n["sets"]++
		if a.unclear {
			n["requests without a clear response"]++
		}
		if a.refused != "" {
			n["cancels refused: "+a.refused]++
		}
		rings := copies[a.id]
		switch {
		case a.cancelled.IsZero() && rings == 0:
			broken("lost", a)
		case a.cancelled.IsZero():
			n["copies"] += rings - 1
		case rings > 0 && a.cancelled.Before(a.due):
			broken("rung after a cancel", a)
		case rings > 0: // the transaction that published it was lost, so the cancel found the alarm scheduled
			n["published, then cancelled"]++
		}
		if !a.cancelled.IsZero() {
			n["cancels"]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(n)) {
		t.Logf("%6d %s", n[what], what)
	}
	if n["requests without a clear response"]*10 > n["sets"] {
		t.Error("too many requests had no clear response: the test judges too little")
	}
}
