package main

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// startNamed starts a node with this name.
func startNamed(t *testing.T, name, databaseURL string, b *testBroker) *process {
	t.Helper()
	env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_NODE=" + name}
	if b != nil {
		env = append(env, b.env()...)
	}
	return start(t, env...)
}

// nodesView has the fields of GET /v1/nodes that the tests read.
type nodesView struct {
	Self   string      `json:"self"`
	Nodes  []nodeView  `json:"nodes"`
	Shards []shardView `json:"shards"`
}

// shardView is one shard of a nodesView. Its epoch grows when the shard gets another owner.
type shardView struct {
	Shard       int    `json:"shard"`
	Incarnation string `json:"incarnation"`
	Epoch       int64  `json:"epoch"`
}

// nodeView is one node of a nodesView.
type nodeView struct {
	Name         string   `json:"name"`
	Incarnation  string   `json:"incarnation"`
	Alive        bool     `json:"alive"`
	NameShared   bool     `json:"name_shared"`
	Shards       []int    `json:"shards"`
	Applications []string `json:"applications"`
	Lacks        []string `json:"lacks"`
}

// nodes reads GET /v1/nodes of the process.
func (p *process) nodes() (nodesView, error) {
	var v nodesView
	status, _, err := p.decode(http.MethodGet, "/v1/nodes", nil, &v)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("GET /v1/nodes returns %d", status)
	}
	return v, err
}

// shares returns how many shards each living node owns, the largest number first.
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

// awaitShares waits until the shares are as wanted, and logs how they changed.
func (p *process) awaitShares(what string, want ...int) {
	p.t.Helper()
	begun := time.Now()
	var seen []string
	eventually(p.t, fmt.Sprintf("%s: shares %v", what, want), func() bool {
		shares := p.shares()
		if s := fmt.Sprint(shares); len(seen) == 0 || !strings.HasSuffix(seen[len(seen)-1], s) {
			seen = append(seen, fmt.Sprintf("%4d ms %s", time.Since(begun).Milliseconds(), s))
		}
		return slices.Equal(shares, want)
	})
	p.t.Logf("%s: %s", what, strings.Join(seen, ", "))
}

// Soon after a node joins, leaves or dies, all nodes own about the same number of shards.
func TestNodesShareTheShards(t *testing.T) {
	t.Parallel()
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		first := startNamed(t, "one", databaseURL, b)
		first.awaitShares("one node", 64)
		second := startNamed(t, "two", databaseURL, b)
		first.awaitShares("a second joined", 32, 32)
		third := startNamed(t, "three", databaseURL, b)
		first.awaitShares("a third joined", 22, 21, 21)
		if err := third.terminate(); err != nil {
			t.Errorf("stop: %v", err)
		}
		first.awaitShares("the third left", 32, 32)
		second.kill()
		first.awaitShares("the second was killed", 64)
	})
}

// Two processes with the same name each own half of the shards. GET /v1/nodes and readiness show that the name is
// shared.
func TestTwoNodesOfOneNameShareTheShardsAndAreReported(t *testing.T) {
	t.Parallel()
	databaseURL, b := postgres(t), dialBroker(t, amqpURL())
	first := startNamed(t, "twin", databaseURL, b)
	startNamed(t, "twin", databaseURL, b)
	first.awaitShares("twins", 32, 32)
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
	eventually(t, "readiness names the shared name", func() bool {
		for _, c := range first.must(http.StatusOK, http.MethodGet, "/readyz", nil).Checks {
			if c.Name == "node" && c.Status == statusWarning && strings.Contains(c.Detail, "twin") {
				return true
			}
		}
		return false
	})
}

// steady sets steadyCount alarms that ring one by one, steadyGap apart. The nodes take turns in setting them.
func steady(nodes ...*process) {
	begins := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
	for k, p := range nodes {
		p.set("shop", fmt.Sprintf("steady-%d", k), steadyCount/len(nodes), func(i int) time.Time {
			return begins.Add(time.Duration(i*len(nodes)+k) * steadyGap)
		})
	}
}

// awaitRungOnTime waits until count alarms have rung. All copies of a ring must have one message id, and no alarm may
// ring early. It logs the greatest lateness, and returns the alarms that rang more than once.
func awaitRungOnTime(t *testing.T, got *receiver, count int) (copied []string) {
	t.Helper()
	eventually(t, "everything rings", func() bool { d, _ := got.byID(); return len(d) >= count })
	distinct, copies := got.byID()
	extra := 0
	for id, n := range distinct {
		if n != 1 {
			t.Errorf("%s rang under %d message ids", id, n)
		}
		if copies[id] > 1 {
			copied, extra = append(copied, id), extra+copies[id]-1
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
	return copied
}

// requireInDoubt checks that a try of each alarm was in doubt. If no node was killed, only a late confirm may cause a
// copy. Confirms are late on a busy machine.
func (p *process) requireInDoubt(ids []string) {
	p.t.Helper()
	for _, id := range ids {
		a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", id), nil)
		if !strings.Contains(fmt.Sprint(a.Attempts), "in_doubt") {
			p.t.Errorf("%s rang more than once, and no try of it was in doubt: %+v", id, a)
		}
	}
}

// unsettled matches the log line of a claim whose outcomes were not written. The group is the number of its alarms.
var unsettled = regexp.MustCompile(`count=(\d+) claimed=true`)

// unsettledAlarms returns the number of alarms whose rings the process could not settle. Each may ring again.
func (p *process) unsettledAlarms() (alarms int) {
	for _, line := range unsettled.FindAllStringSubmatch(p.log.String(), -1) {
		n, _ := strconv.Atoi(line[1])
		alarms += n
	}
	return alarms
}

// requireOnce checks that each alarm of the application rang once. On a busy machine a confirm, or the commit of an
// outcome, may come too late, and the ring is repeated. Each late confirm has left an attempt. Other copies may be at
// most as many as the alarms of the claims that p and the other processes could not settle.
func (p *process) requireOnce(application string, copies map[string]int, others ...*process) {
	p.t.Helper()
	allowed := p.unsettledAlarms()
	for _, q := range others {
		allowed += q.unsettledAlarms()
	}
	var unexplained []string
	for id, n := range copies {
		if n > 1 && !p.hadLateConfirm(application, id) {
			unexplained = append(unexplained, id)
		}
	}
	if len(unexplained) > allowed {
		p.t.Errorf("%d alarms rang more than once without a late confirm, and %d alarms were in claims that were not settled: %v", len(unexplained), allowed, unexplained)
	}
}

// hadLateConfirm reports whether an attempt of the alarm says that the reply to its ring came too late.
func (p *process) hadLateConfirm(application, id string) bool {
	p.t.Helper()
	attempts := fmt.Sprint(p.must(http.StatusOK, http.MethodGet, alarmPath(application, id), nil).Attempts)
	return strings.Contains(attempts, "no confirm in time") ||
		strings.Contains(attempts, "did not report whether the ring was written")
}

// copiesOf counts the rings of each alarm that the receivers have got together.
func copiesOf(receivers ...*receiver) map[string]int {
	n := map[string]int{}
	for _, r := range receivers {
		for _, g := range r.all() {
			n[g.businessID]++
		}
	}
	return n
}

const (
	steadyCount = 1500
	steadyGap   = 6 * time.Millisecond
)

// After a node is killed, the other nodes ring its alarms.
func TestKilledNodeIsReplaced(t *testing.T) {
	t.Parallel()
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
		three := startNamed(t, "three", databaseURL, b)
		one.awaitShares("three nodes", 22, 21, 21)
		got := b.receive("shop")
		steady(one, two, three)
		eventually(t, "a third rings", func() bool { return len(got.all()) > steadyCount/3 })
		two.kill()
		awaitRungOnTime(t, got, steadyCount)
		one.awaitShares("after the kill", 32, 32)
	})
}

// A node that stops gracefully hands its shards to the other node, and no alarm rings twice.
func TestLeavingNodeHandsOver(t *testing.T) {
	t.Parallel()
	forCluster(t, "mariadb", func(t *testing.T, databaseURL string, b *testBroker) {
		one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
		one.awaitShares("two nodes", 32, 32)
		got := b.receive("shop")
		steady(one, two)
		eventually(t, "a third rings", func() bool { return len(got.all()) > steadyCount/3 })
		begun := time.Now()
		if err := two.terminate(); err != nil {
			t.Errorf("stop: %v", err)
		}
		t.Logf("stopped in %s", time.Since(begun).Round(time.Millisecond))
		one.awaitShares("after the stop", 64)
		if expired := one.metric(`clockd_preload_lease_changes_total{change="lost"}`); expired > 0 {
			t.Errorf("%v leases of the other node expired meanwhile", expired)
		}
		one.requireInDoubt(awaitRungOnTime(t, got, steadyCount))
	})
}

// A node is suspended until its leases have expired, and then continues. No alarm is lost or rings twice, and the node
// gets its share of the shards again. The row locks of its claims end within 10 s, so that other nodes ring those
// alarms.
func TestStoppedNodeComesBack(t *testing.T) {
	t.Parallel()
	forCluster(t, "postgresql", func(t *testing.T, databaseURL string, b *testBroker) {
		one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
		one.awaitShares("two nodes", 32, 32)
		got := b.receive("shop")
		steady(one, two)
		eventually(t, "a third rings", func() bool { return len(got.all()) > steadyCount/3 })
		if err := two.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		one.awaitShares("while it stands still", 64)
		awaitRungOnTime(t, got, steadyCount)
		if err := two.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		one.awaitShares("it goes on", 32, 32)
		const more = 300
		two.set("shop", "after", more, func(int) time.Time { return time.Now().Add(time.Second) })
		awaitRungOnTime(t, got, steadyCount+more)
	})
}

// An alarm is set on one node shortly before it is due, and the owner of its shard rings it. The owner gets a wake-up,
// over RabbitMQ or, with streams, over PostgreSQL, so it does not need the sweep.
func TestAlarmSetOnOneNodeRingsOnTheShardsOwner(t *testing.T) {
	t.Parallel()
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
		r := wakeRounds{t: t, setter: one, owner: two, got: b.receive("shop"), owned: func(v nodesView, shard int) bool {
			return v.Shards[shard].Incarnation == v.Self
		}}
		r.run()
	})
	t.Run("postgresql-stream", func(t *testing.T) {
		t.Parallel()
		databaseURL := postgres(t)
		one, two := startNamed(t, "one", databaseURL, nil), startNamed(t, "two", databaseURL, nil)
		one.awaitShares("two nodes", 32, 32)
		got := two.listen("shop")
		eventually(t, "the node knows of the subscriber", func() bool {
			v, err := one.nodes()
			return err == nil &&
				slices.ContainsFunc(v.Nodes, func(n nodeView) bool { return slices.Contains(n.Applications, "shop") })
		})
		r := wakeRounds{t: t, setter: one, owner: two, got: got, owned: func(nodesView, int) bool { return true }}
		r.run()
	})
}

// wakeRounds sets alarms on one node, the setter, that another node rings, the owner of their shards.
type wakeRounds struct {
	t             *testing.T
	setter, owner *process
	got           *receiver
	owned         func(v nodesView, shard int) bool // reports whether the owner rings the shard's alarms; v is the owner's view
	next          int                               // number in the next business id
	set           int                               // alarms that were set
}

// run repeats the round until one was undisturbed. On a starved machine a lease may end during a round, and then the
// other node rings its alarms rightly.
func (w *wakeRounds) run() {
	w.t.Helper()
	const rounds = 10
	for range rounds {
		if w.round() {
			return
		}
	}
	w.t.Errorf("each of %d rounds was disturbed: shards changed hands, or the node that does not own them rang their alarms", rounds)
}

// round sets the first alarms, which open all connections, and then the counted alarms. It checks that only the owner
// rang the counted alarms and received a wake-up for each. It logs the lateness. It returns false, and checks nothing,
// if the round was disturbed: shards changed hands, or the setter rang some of the alarms. A node still rings a shard
// for a second after it gave the shard up.
func (w *wakeRounds) round() (undisturbed bool) {
	w.t.Helper()
	const first, count = 20, 200
	w.setter.awaitShares("two nodes", 32, 32)
	v := w.view()
	rungBefore := w.setter.metric(ringsMetric)
	w.setAndAwait(v, first)
	setterRang, heardBefore, received := w.setter.metric(ringsMetric), w.owner.metric(wakesMetric), w.got.number()
	if setterRang > rungBefore {
		w.t.Logf("the round is repeated: the setter rang %v of the first alarms", setterRang-rungBefore)
		return false
	}
	w.setAndAwait(v, count)
	if !slices.Equal(w.view().Shards, v.Shards) {
		w.t.Log("the round is repeated: shards changed hands")
		return false
	}
	lates := lateness(w.got.all()[received:])
	w.t.Logf("set on one node, rung by the other: median %s, 99%% %s, latest %s late",
		lates[count/2], lates[count*99/100], lates[count-1])
	if n := w.setter.metric(ringsMetric) - setterRang; n > 0 {
		w.t.Logf("the round is repeated: the setter rang %v of %d alarms", n, count)
		return false
	}
	if heard := w.owner.metric(wakesMetric) - heardBefore; heard < count {
		w.t.Errorf("the node that rang %d alarms received only %v wake-ups: the sweep found the others", count, heard)
	}
	return true
}

const (
	ringsMetric = "clockd_ring_rings_total"
	wakesMetric = "clockd_preload_wakes_received_total"
)

// view reads the nodes and shards as the owner sees them.
func (w *wakeRounds) view() (v nodesView) {
	w.t.Helper()
	eventually(w.t, "the owner lists the nodes", func() (listed bool) { // 503 while the database is busy
		var err error
		v, err = w.owner.nodes()
		return err == nil
	})
	return v
}

// setAndAwait sets count alarms that the owner rings, and waits until they have rung and the nodes have counted the
// rings.
func (w *wakeRounds) setAndAwait(v nodesView, count int) {
	w.t.Helper()
	for w.set += count; count > 0; w.next++ {
		id := fmt.Sprintf("near-%d", w.next)
		if w.owned(v, (clock.Key{Application: "shop", BusinessID: id}).Shard(64)) {
			w.setter.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), map[string]any{"delay": 300})
			count--
		}
	}
	eventually(w.t, "all ring", func() bool {
		d, _ := w.got.byID()
		return len(d) == w.set && int(w.setter.metric(ringsMetric)+w.owner.metric(ringsMetric)) >= w.set
	})
}

// The broker and the database of two nodes go away and come back, on both databases at once. No alarm is lost, and both
// nodes own half of the shards again.
func TestNothingIsLostWhileServersOfTwoNodesAreAway(t *testing.T) {
	t.Parallel()
	s := startPrivateServers(t, "mariadb", "postgresql", "rabbitmq")
	type cluster struct {
		one, two *process
		b        *testBroker
	}
	const count = 600
	clusters := map[string]cluster{}
	for service, variable := range map[string]string{"mariadb": "CLOCKD_TEST_MYSQL_URL", "postgresql": "CLOCKD_TEST_POSTGRES_URL"} {
		b := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
		c := cluster{one: startNamed(t, "one", s.env[variable], b), two: startNamed(t, "two", s.env[variable], b), b: b}
		c.one.awaitShares("two nodes on "+service, 32, 32)
		b.receive("shop")
		clusters[service] = c
	}
	due := func(int) time.Time { return time.Now().Add(5 * time.Second) }
	for _, c := range clusters {
		c.one.set("shop", "a", count/2, due)
		c.two.set("shop", "b", count/2, due)
	}
	s.do("stop", "rabbitmq")
	for service := range clusters {
		s.do("kill", service)
		s.do("start", service)
	}
	s.do("start", "rabbitmq")
	for service, c := range clusters {
		back := dialBroker(t, s.env["CLOCKD_TEST_AMQP_URL"])
		back.exchange = c.b.exchange
		got := back.receive("shop")
		eventually(t, "all due alarms ring on "+service, func() bool { d, _ := got.byID(); return len(d) == count })
		c.one.awaitShares("after all on "+service, 32, 32)
		c.two.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "after"), map[string]any{"delay": "1s"})
		eventually(t, "an alarm that is set now rings on "+service,
			func() bool { n, _ := got.byID(); return n["after"] == 1 })
	}
}

// A subscriber of the stream gets its application's rings from the shards of all nodes. Subscribers on several nodes
// share them.
func TestSubscribersGetRingsOfShardsOnOtherNodes(t *testing.T) {
	t.Parallel()
	for _, e := range chosenShared("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			one, two := startNamed(t, "one", databaseURL, nil), startNamed(t, "two", databaseURL, nil)
			one.awaitShares("two nodes", 32, 32)
			const count = 500
			one.set("shop", "early", count, func(int) time.Time { return time.Now() })
			there := two.listen("shop")
			eventually(t, "the parked alarms ring on the other node",
				func() bool { d, _ := there.byID(); return len(d) == count })
			here := one.listen("shop")
			eventually(t, "both nodes know of both subscribers", func() bool {
				v, err := one.nodes()
				return err == nil && !slices.ContainsFunc(v.Nodes, func(n nodeView) bool {
					return n.Alive && !slices.Contains(n.Applications, "shop")
				})
			})
			two.set("shop", "late", count, func(int) time.Time { return time.Now().Add(2 * time.Second) })
			eventually(t, "the other alarms ring", func() bool { return len(copiesOf(here, there)) == 2*count })
			t.Logf("%d here, %d there", len(here.all()), len(there.all()))
			if len(here.all()) == 0 {
				t.Error("the subscribers do not share the alarms")
			}
			one.requireOnce("shop", copiesOf(here, there), two)
		})
	}
}

// Rings with ack_timeout are answered over HTTP and over RabbitMQ. An alarm without an answer rings again, up to
// max_rings.
func TestAnswersOverHTTPAndAMQPEndOrRepeatRings(t *testing.T) {
	t.Parallel()
	forClusters(t, func(t *testing.T, databaseURL string, b *testBroker) {
		p := startNamed(t, "one", databaseURL, b)
		got := b.receive("shop")
		set := func(id string, maxRings int, ackTimeout string) {
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", id), map[string]any{
				"delay": 0, "ack_timeout": ackTimeout, "max_rings": maxRings,
			})
		}
		ring := func(id string, no int) string {
			t.Helper()
			var found string
			eventually(t, fmt.Sprintf("%s has ring number %d", id, no), func() bool {
				for _, r := range got.all() {
					if r.businessID == id && strings.HasSuffix(r.messageID, fmt.Sprintf(".%d", no)) {
						found = r.messageID
					}
				}
				return found != ""
			})
			return found
		}
		answer := func(status int, message, kind string, body any) response {
			t.Helper()
			return p.must(status, http.MethodPost, "/v1/applications/shop/rings/"+message+"/"+kind, body)
		}
		for _, id := range []string{"acked", "by-amqp", "released", "buried", "touched"} {
			set(id, 10, "1h") // no ring repeats before its answer, however busy the machine is
		}
		set("ignored", 2, "2s")
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
		eventually(t, "the answer is applied", func() bool {
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
		eventually(t, "the alarm without an answer is dead", func() bool {
			return p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "ignored"), nil).State == "dead"
		})
		p.must(http.StatusOK, http.MethodPost, alarmPath("shop", "ignored")+"/discard", nil)
		if a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "touched"), nil); a.State != "ringing" {
			t.Errorf("the touched alarm: %+v", a)
		}
		p.requireOnce("shop", map[string]int{"touched": copiesOf(got)["touched"]})
	})
}

// Rings that are due at one instant are published in the order of their priorities, the highest first.
func TestHigherPriorityRingsFirstAtOneInstant(t *testing.T) {
	t.Parallel()
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
		eventually(t, "all ring", func() bool { d, _ := got.byID(); return len(d) == 50 })
		var order []string // without the copies of late confirms
		seen := map[string]bool{}
		for _, r := range got.all() {
			if !seen[r.businessID] {
				order = append(order, r.businessID[:1])
			}
			seen[r.businessID] = true
		}
		if !slices.IsSortedFunc(order, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Errorf("rung in the order of priorities %v", order)
		}
		p.requireOnce("shop", copiesOf(got))
	})
}
