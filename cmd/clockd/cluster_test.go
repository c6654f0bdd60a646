package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// startNamed starts a node with that name.
func startNamed(t *testing.T, name, databaseURL string, b *testBroker) *process {
	t.Helper()
	env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_NODE=" + name}
	if b != nil {
		env = append(env, b.env()...)
	}
	return start(t, env...)
}

// nodesView is what the tests look at in GET /v1/nodes.
type nodesView struct {
	Self   string     `json:"self"`
	Nodes  []nodeView `json:"nodes"`
	Shards []struct {
		Shard       int    `json:"shard"`
		Incarnation string `json:"incarnation"`
	} `json:"shards"`
}

// nodeView is one node of it.
type nodeView struct {
	Name         string   `json:"name"`
	Incarnation  string   `json:"incarnation"`
	Alive        bool     `json:"alive"`
	NameShared   bool     `json:"name_shared"`
	Shards       []int    `json:"shards"`
	Applications []string `json:"applications"`
}

// nodes asks the process who shares the work.
func (p *process) nodes() (nodesView, error) {
	var v nodesView
	status, _, err := p.decode(http.MethodGet, "/v1/nodes", nil, &v)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET /v1/nodes answers %d", status)
	}
	return v, err
}

// shares returns how many shards each living node has, most first.
func (p *process) shares() []int {
	v, err := p.nodes()
	if err != nil {
		return nil
	}
	var shares []int
	for _, n := range v.Nodes {
		if n.Alive {
			shares = append(shares, len(n.Shards))
		}
	}
	slices.Sort(shares)
	slices.Reverse(shares)
	return shares
}

// becomes waits until the shares are as wanted, and logs how they went.
func (p *process) becomes(what string, want ...int) {
	p.t.Helper()
	begun := time.Now()
	var seen []string
	eventually(p.t, 20*time.Second, fmt.Sprintf("%s: shares %v", what, want), func() bool {
		shares := p.shares()
		if s := fmt.Sprint(shares); len(seen) == 0 || !strings.HasSuffix(seen[len(seen)-1], s) {
			seen = append(seen, fmt.Sprintf("%4d ms %s", time.Since(begun).Milliseconds(), s))
		}
		return slices.Equal(shares, want)
	})
	p.t.Logf("%s: %s", what, strings.Join(seen, ", "))
}

// Shares are even soon after a node joins, leaves, or dies.
func TestNodesShareTheShards(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		first := startNamed(t, "one", databaseURL, b)
		first.becomes("one node", 64)
		second := startNamed(t, "two", databaseURL, b)
		first.becomes("a second joined", 32, 32)
		third := startNamed(t, "three", databaseURL, b)
		first.becomes("a third joined", 22, 21, 21)
		if err := third.terminate(); err != nil {
			t.Errorf("stop: %v", err)
		}
		first.becomes("the third left", 32, 32)
		second.kill()
		first.becomes("the second was killed", 64)
	})
}

// Two processes with one name share nothing but the name, and are shown.
func TestTwoNodesOfOneName(t *testing.T) {
	t.Parallel()
	databaseURL, b := postgres(t), dialBroker(t, amqpURL())
	first := startNamed(t, "twin", databaseURL, b)
	startNamed(t, "twin", databaseURL, b)
	first.becomes("twins", 32, 32)
	v, err := first.nodes()
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]int{}
	for _, s := range v.Shards {
		owners[s.Incarnation]++
	}
	for _, n := range v.Nodes {
		if !n.NameShared || owners[n.Incarnation] != 32 {
			t.Errorf("%+v has %d shards", n, owners[n.Incarnation])
		}
	}
	eventually(t, 10*time.Second, "readiness tells of the name", func() bool {
		for _, c := range first.must(http.StatusOK, http.MethodGet, "/readyz", nil).Checks {
			if c.Name == "node" && c.Status == statusWarning && strings.Contains(c.Detail, "twin") {
				return true
			}
		}
		return false
	})
}

// steady sets steadyCount alarms that ring one by one, steadyGap apart, through the nodes by turns.
func steady(nodes ...*process) {
	begins := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
	for k, p := range nodes {
		p.set("shop", fmt.Sprintf("steady-%d", k), steadyCount/len(nodes), func(i int) time.Time {
			return begins.Add(time.Duration(i*len(nodes)+k) * steadyGap)
		})
	}
}

// latest waits until count alarms have rung and returns how late the latest was; copies bear one message id, if they are
// allowed.
func latest(t *testing.T, got *receiver, count int, copiesAllowed bool) time.Duration {
	t.Helper()
	eventually(t, time.Minute, "everything rings", func() bool { d, _ := got.byID(); return len(d) >= count })
	distinct, copies := got.byID()
	extra := 0
	for id, n := range distinct {
		extra += copies[id] - 1
		if n != 1 {
			t.Errorf("%s rang under %d message ids", id, n)
		}
		if copies[id] != 1 && !copiesAllowed {
			t.Errorf("%s rang %d times", id, copies[id])
		}
	}
	var worst time.Duration
	seen := map[string]bool{}
	for _, r := range got.all() {
		late := r.arrived.Sub(r.target)
		if late < 0 {
			t.Errorf("%s rang %s early", r.businessID, -late)
		}
		if !seen[r.businessID] {
			worst = max(worst, late)
		}
		seen[r.businessID] = true
	}
	t.Logf("%d rung, %d copies, the latest %s late", len(distinct), extra, worst.Round(time.Millisecond))
	return worst
}

const (
	steadyCount = 3000
	steadyGap   = 3 * time.Millisecond
)

// A node that is killed takes nothing with it: the others ring what it had within 5 s.
func TestKilledNodeIsReplaced(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		one, two, three := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b), startNamed(t, "three", databaseURL, b)
		one.becomes("three nodes", 22, 21, 21)
		got := b.receive("shop")
		steady(one, two, three)
		eventually(t, time.Minute, "a third rings", func() bool { return len(got.all()) > steadyCount/3 })
		two.kill()
		if late := latest(t, got, steadyCount, true); late > 5*time.Second+slow {
			t.Errorf("an alarm rang %s late", late)
		}
		one.becomes("after the kill", 32, 32)
	})
}

// A node that leaves hands over: no copy, nothing more than a second late, gone within 10 s.
func TestLeavingNodeHandsOver(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
		one.becomes("two nodes", 32, 32)
		got := b.receive("shop")
		steady(one, two)
		eventually(t, time.Minute, "a third rings", func() bool { return len(got.all()) > steadyCount/3 })
		begun := time.Now()
		if err := two.terminate(); err != nil {
			t.Errorf("stop: %v", err)
		}
		took := time.Since(begun)
		t.Logf("stopped in %s", took.Round(time.Millisecond))
		if took > stopTimeout {
			t.Errorf("the stop took %s", took)
		}
		if late := latest(t, got, steadyCount, false); late > time.Second+slow {
			t.Errorf("an alarm rang %s late", late)
		}
	})
}

// A node that stands still past its lease and comes back neither loses nor repeats anything, and gets its share again.
// The locks of the claims it was in are gone within 10 s, so that others ring those alarms.
func TestStoppedNodeComesBack(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
		one.becomes("two nodes", 32, 32)
		got := b.receive("shop")
		steady(one, two)
		eventually(t, time.Minute, "a third rings", func() bool { return len(got.all()) > steadyCount/3 })
		if err := two.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		one.becomes("while it stands still", 64)
		late := latest(t, got, steadyCount, true)
		if late > 10*time.Second+slow {
			t.Errorf("an alarm rang %s late", late)
		}
		if err := two.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		one.becomes("it goes on", 32, 32)
		const more = 300
		two.set("shop", "after", more, func(int) time.Time { return time.Now().Add(time.Second) })
		latest(t, got, steadyCount+more, true)
	})
}

// An alarm that is set on one node soon before its time rings from the node that has its shard, and is not left to the
// sweep: told over RabbitMQ, or over PostgreSQL where there is none.
func TestSetHereRingsThere(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
		one.becomes("two nodes", 32, 32)
		v, err := two.nodes()
		if err != nil {
			t.Fatal(err)
		}
		there := map[int]bool{}
		for _, s := range v.Shards {
			there[s.Shard] = s.Incarnation == v.Self
		}
		setHereRingsThere(t, one, b.receive("shop"), func(shard int) bool { return there[shard] })
	})
	t.Run("postgresql-stream", func(t *testing.T) {
		t.Parallel()
		databaseURL := postgres(t)
		one, two := startNamed(t, "one", databaseURL, nil), startNamed(t, "two", databaseURL, nil)
		one.becomes("two nodes", 32, 32)
		got := two.listen("shop")
		eventually(t, 10*time.Second, "the node knows of the subscriber", func() bool {
			v, err := one.nodes()
			return err == nil && slices.ContainsFunc(v.Nodes, func(n nodeView) bool { return slices.Contains(n.Applications, "shop") })
		})
		setHereRingsThere(t, one, got, func(int) bool { return true })
	})
}

// setHereRingsThere sets alarms of the shards through p, and looks how late they ring, once all connections stand and all nodes
// know of each other.
func setHereRingsThere(t *testing.T, p *process, got *receiver, there func(shard int) bool) {
	t.Helper()
	next, rung := 0, 0
	set := func(count int) {
		t.Helper()
		for rung += count; count > 0; next++ {
			id := fmt.Sprintf("near-%d", next)
			if there((clock.Key{Application: "shop", BusinessID: id}).Shard(64)) {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), map[string]any{"delay": 300})
				count--
			}
		}
		eventually(t, time.Minute, "all ring", func() bool { d, _ := got.byID(); return len(d) == rung })
	}
	const first, count = 20, 200
	set(first)
	set(count)
	lates := lateness(got.all()[first:])
	t.Logf("set on one node, rung by the other: median %s, 99%% %s, latest %s late",
		lates[count/2], lates[count*99/100], lates[count-1])
	if lates[count/2] > 250*time.Millisecond {
		t.Errorf("half of them rang more than %s late: they were left to the sweep", lates[count/2])
	}
}

// Broker and database go away under two nodes and come back: nothing is lost, and the shares are even again.
func TestServersAwayUnderTwoNodes(t *testing.T) {
	for _, d := range []struct{ service, variable string }{
		{"mariadb", "CLOCKD_TEST_MYSQL_URL"}, {"postgresql", "CLOCKD_TEST_POSTGRES_URL"},
	} {
		t.Run(d.service, func(t *testing.T) {
			t.Parallel()
			s := privately(t, d.service, "rabbitmq")
			b := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
			one, two := startNamed(t, "one", s.env[d.variable], b), startNamed(t, "two", s.env[d.variable], b)
			one.becomes("two nodes", 32, 32)
			b.receive("shop")
			const count = 600
			one.set("shop", "a", count/2, func(int) time.Time { return time.Now().Add(5 * time.Second) })
			two.set("shop", "b", count/2, func(int) time.Time { return time.Now().Add(5 * time.Second) })
			s.do("stop", "rabbitmq")
			s.do("kill", d.service)
			s.do("start", d.service)
			s.do("start", "rabbitmq")
			back := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
			back.exchange = b.exchange
			got := back.receive("shop")
			eventually(t, time.Minute, "all that was due rings", func() bool { d, _ := got.byID(); return len(d) == count })
			one.becomes("after all", 32, 32)
			two.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "after"), map[string]any{"delay": "1s"})
			eventually(t, 20*time.Second, "what is set now rings", func() bool { n, _ := got.byID(); return n["after"] == 1 })
		})
	}
}

// A subscriber of the stream gets its application's rings on whatever node they are due, and subscribers on several nodes
// share them.
func TestStreamOfAnotherNode(t *testing.T) {
	for _, e := range engines[:2] {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			one, two := startNamed(t, "one", databaseURL, nil), startNamed(t, "two", databaseURL, nil)
			one.becomes("two nodes", 32, 32)
			const count = 500
			one.set("shop", "early", count, func(int) time.Time { return time.Now() })
			there := two.listen("shop")
			eventually(t, 30*time.Second, "what was held rings on the other node", func() bool { d, _ := there.byID(); return len(d) == count })
			here := one.listen("shop")
			eventually(t, 10*time.Second, "both nodes know of both", func() bool {
				v, err := one.nodes()
				return err == nil && !slices.ContainsFunc(v.Nodes, func(n nodeView) bool {
					return n.Alive && !slices.Contains(n.Applications, "shop")
				})
			})
			two.set("shop", "late", count, func(int) time.Time { return time.Now().Add(2 * time.Second) })
			eventually(t, 30*time.Second, "they share the rest", func() bool {
				return len(here.all())+len(there.all()) >= 2*count
			})
			t.Logf("%d here, %d there", len(here.all()), len(there.all()))
			if len(here.all()) == 0 || len(here.all())+len(there.all()) != 2*count {
				t.Errorf("%d and %d rings of %d alarms", len(here.all()), len(there.all()), 2*count)
			}
		})
	}
}

// Rings with ack_timeout are answered over HTTP and over RabbitMQ; what is not answered rings again, up to max_rings.
func TestAnswers(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		p := startNamed(t, "one", databaseURL, b)
		got := b.receive("shop")
		set := func(id string, maxRings int) {
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), map[string]any{
				"delay": 0, "ack_timeout": "2s", "max_rings": maxRings,
			})
		}
		ring := func(id string, no int) string {
			t.Helper()
			var found string
			eventually(t, 30*time.Second, fmt.Sprintf("%s rings for the %d. time", id, no), func() bool {
				for _, r := range got.all() {
					if r.businessID == id && strings.HasSuffix(r.messageID, fmt.Sprintf(".%d", no)) {
						found = r.messageID
					}
				}
				return found != ""
			})
			return found
		}
		answer := func(status int, message, kind string, body any) answer {
			t.Helper()
			return p.must(status, http.MethodPost, "/v1/applications/shop/rings/"+message+"/"+kind, body)
		}
		for _, id := range []string{"acked", "by-amqp", "released", "buried", "touched"} {
			set(id, 10)
		}
		set("ignored", 2)
		if a := answer(http.StatusOK, ring("acked", 1), "ack", nil); a.State != "rung" {
			t.Errorf("after ack: %+v", a)
		}
		if a := answer(http.StatusConflict, ring("acked", 1), "ack", nil); a.Code != "stale_ring" {
			t.Errorf("a repeated ack: %+v", a)
		}
		if a := answer(http.StatusNotFound, "999999999.1.1", "ack", nil); a.Code != "unknown_ring" {
			t.Errorf("an unknown ring: %+v", a)
		}
		b.answer(ring("by-amqp", 1), "alarm.ack")
		eventually(t, 10*time.Second, "the reply is applied", func() bool {
			return p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "by-amqp"), nil).State == "rung"
		})
		answer(http.StatusOK, ring("released", 1), "release", map[string]any{"delay": "100ms"})
		answer(http.StatusOK, ring("released", 2), "ack", nil)
		if a := answer(http.StatusConflict, ring("released", 1), "release", nil); a.Code != "stale_ring" {
			t.Errorf("a late release: %+v", a)
		}
		if a := answer(http.StatusOK, ring("buried", 1), "bury", map[string]any{"reason": "no such order"}); a.State != "dead" || !strings.Contains(a.LastError, "no such order") {
			t.Errorf("after bury: %+v", a)
		}
		p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "buried")+"/kick", nil)
		answer(http.StatusOK, ring("buried", 2), "ack", nil)
		answer(http.StatusOK, ring("touched", 1), "touch", map[string]any{"delay": "1h"})
		ring("ignored", 2)
		eventually(t, 30*time.Second, "what is never answered is dead", func() bool {
			return p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "ignored"), nil).State == "dead"
		})
		p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "ignored")+"/discard", nil)
		if a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "touched"), nil); a.State != "ringing" {
			t.Errorf("what was touched: %+v", a)
		}
		if _, copies := got.byID(); copies["touched"] != 1 {
			t.Errorf("what was touched rang %d times", copies["touched"])
		}
	})
}

// The order in which rings of one instant are published is that of their priority.
func TestPriorityOrdersOneInstant(t *testing.T) {
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		p := start(t, append(b.env(), "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_RING_WORKERS=1")...)
		got := b.receive("shop")
		due := time.Now().Add(2 * time.Second)
		var wait sync.WaitGroup
		for i := range 50 {
			wait.Go(func() {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("%d-%d", i%10, i)), map[string]any{
					"ring_at": due.UnixMilli(), "priority": i % 10,
				})
			})
		}
		wait.Wait()
		eventually(t, 30*time.Second, "all ring", func() bool { return len(got.all()) == 50 })
		var order []string
		for _, r := range got.all() {
			order = append(order, r.businessID[:1])
		}
		if !slices.IsSortedFunc(order, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Errorf("rung in the order of priorities %v", order)
		}
	})
}
