//go:build soak

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// brokerServices are the services of deploy/services that are the hosts of one RabbitMQ cluster.
var brokerServices = []string{"rabbitmq", "rabbitmq2", "rabbitmq3"}

// Each host of a broker cluster is killed and started again in turn. Rings go on while a host is down. At the end every
// accepted alarm has rung, and no cancelled alarm has rung.
func TestSoakNoAlarmIsLostWhileBrokerHostsDieInTurn(t *testing.T) {
	s := startPrivateServers(t, brokerServices...)
	url := s.env["CLOCKD_TEST_AMQP_CLUSTER_URL"]
	for _, e := range sharedEngines() {
		t.Run(e.name, func(t *testing.T) {
			c := &clusterConsumer{url: url, exchange: "e2e." + randomName(), application: "shop",
				ready: make(chan struct{})}
			c.start(t)
			s.do("ctl", "rabbitmq", "eval", "mnesia:sync_log().") // otherwise a kill so soon may undo the declarations
			databaseURL := e.open(t)
			var nodes []*process
			for _, name := range []string{"one", "two"} {
				nodes = append(nodes,
					start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_NODE="+name, "CLOCKD_AMQP_URL="+url,
						"CLOCKD_AMQP_EXCHANGE="+c.exchange))
			}
			l := startClusterLoad(t, nodes)
			for _, host := range brokerServices {
				awaitMore(t, "rings before a host dies", &c.got)
				s.do("kill", host)
				awaitMore(t, "rings while "+host+" is down", &c.got)
				s.do("start", host)
				eventually(t, "the queue has three members",
					func() bool { return s.onlineMembers(c.queue()) == len(brokerServices) })
			}
			l.stop()
			l.requireRung(t, nodes[0], &c.got)
		})
	}
}

// awaitMore waits until some more rings have arrived.
func awaitMore(t *testing.T, what string, got *receiver) {
	t.Helper()
	enough := got.number() + 300
	eventually(t, what, func() bool { return got.number() >= enough })
}

// onlineMembers returns how many members of the quorum queue are online.
func (s *services) onlineMembers(queue string) int {
	for line := range strings.Lines(s.do("ctl", "rabbitmq", "--quiet", "list_queues", "name", "online")) {
		if name, members, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == queue {
			return strings.Count(members, "@")
		}
	}
	return 0
}

// clusterConsumer takes an application's rings from a quorum queue with a member on each host. When its host dies, it
// connects to a living host.
type clusterConsumer struct {
	url, exchange, application string
	ready                      chan struct{} // closed once the first consumer is set up
	once                       sync.Once
	got                        receiver
}

func (c *clusterConsumer) queue() string { return c.exchange + "." + c.application }

// start consumes until the test ends. It returns when the queue exists.
func (c *clusterConsumer) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var consuming sync.WaitGroup
	consuming.Go(func() {
		before, hosts, _ := strings.Cut(c.url, "@")
		hosts, after, _ := strings.Cut(hosts, "/")
		all := strings.Split(hosts, ",")
		for i := 0; ctx.Err() == nil; i = (i + 1) % len(all) {
			_ = c.consume(ctx, before+"@"+all[i]+"/"+after) // the next host takes over
		}
	})
	t.Cleanup(func() {
		cancel()
		consuming.Wait()
	})
	select {
	case <-c.ready:
	case <-time.After(time.Minute):
		t.Fatal("no host of the cluster serves a consumer")
	}
}

// consume takes rings from one host until its connection ends.
func (c *clusterConsumer) consume(ctx context.Context, url string) error {
	conn, err := amqp.DialConfig(url, amqp.Config{Heartbeat: 2 * time.Second, Dial: amqp.DefaultDial(2 * time.Second)})
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err == nil {
		err = ch.ExchangeDeclare(c.exchange, "direct", true, false, false, false, nil)
	}
	if err == nil {
		_, err = ch.QueueDeclare(c.queue(), true, false, false, false,
			amqp.Table{"x-queue-type": "quorum", "x-quorum-initial-group-size": int32(len(brokerServices))})
	}
	if err == nil {
		err = ch.QueueBind(c.queue(), c.application, c.exchange, false, nil)
	}
	if err == nil {
		err = ch.Qos(100, 0, false)
	}
	if err != nil {
		return err
	}
	rings, err := ch.Consume(c.queue(), "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	c.once.Do(func() { close(c.ready) })
	for d := range rings {
		c.got.add(receivedRing{messageID: d.MessageId, businessID: d.CorrelationId, arrived: time.Now()})
		if err := d.Ack(false); err != nil { // the ring comes again: a copy by the broker
			return err
		}
	}
	return nil
}

// clusterLoad sets alarms that are due within seconds, and cancels some of them.
type clusterLoad struct {
	nodes     []*process
	cancel    context.CancelFunc
	running   sync.WaitGroup
	accepted  map[string]bool // alarms with a 2xx response to their set
	cancelled map[string]bool // accepted alarms with a 2xx response to their cancel
	refused   int             // sets without a 2xx response
}

const (
	loadBatch  = 20 // alarms set by one request
	loadCancel = 5  // every fifth alarm is cancelled
)

// startClusterLoad begins the load. The nodes take turns.
func startClusterLoad(t *testing.T, nodes []*process) *clusterLoad {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &clusterLoad{nodes: nodes, cancel: cancel, accepted: map[string]bool{}, cancelled: map[string]bool{}}
	l.running.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for round := 0; ctx.Err() == nil; round++ {
			l.set(round)
			l.cancelSome(round - 5) // about a second after the set
			<-tick.C
		}
	})
	t.Cleanup(l.stop)
	return l
}

func (l *clusterLoad) stop() {
	l.cancel()
	l.running.Wait()
}

func loadID(round, i int) string { return fmt.Sprintf("r%d-%d", round, i) }

// set sets the alarms of a round. The alarms to be cancelled are due later than the others.
func (l *clusterLoad) set(round int) {
	var sets []map[string]any
	for i := range loadBatch {
		delay := 100 + rand.IntN(2000)
		if i%loadCancel == 0 {
			delay += 2000
		}
		sets = append(sets, map[string]any{"business_id": loadID(round, i), "delay": delay, "payload": i})
	}
	for _, r := range l.post(round, "set", sets) {
		if r.Status/100 == 2 {
			l.accepted[r.BusinessID] = true
		} else {
			l.refused++
		}
	}
}

func (l *clusterLoad) cancelSome(round int) {
	var ids []string
	for i := 0; i < loadBatch; i += loadCancel {
		if id := loadID(round, i); l.accepted[id] {
			ids = append(ids, id)
		}
	}
	for _, r := range l.post(round, "cancel", ids) {
		if r.Status/100 == 2 {
			l.cancelled[r.BusinessID] = true
		}
	}
}

// post sends a batch to the round's node. A batch without a response accepts nothing: its items may have taken effect
// or not.
func (l *clusterLoad) post(round int, verb string, items any) []answerResult {
	p := l.nodes[max(round, 0)%len(l.nodes)]
	a, err := p.do(http.MethodPost, "/v1/applications/shop/alarms", map[string]any{verb: items})
	if err != nil || a.Status != http.StatusOK {
		return make([]answerResult, loadBatch)
	}
	return a.Results
}

// requireRung waits until each accepted alarm that was not cancelled has rung, and fails if a cancelled alarm has rung.
func (l *clusterLoad) requireRung(t *testing.T, p *process, got *receiver) {
	t.Helper()
	missing := 0
	t.Cleanup(func() { t.Logf("%d alarms lost", missing) })
	eventually(t, "every accepted alarm rings", func() bool {
		distinct, _ := got.byID()
		missing = 0
		for id := range l.accepted {
			if !l.cancelled[id] && distinct[id] == 0 {
				missing++
			}
		}
		return missing == 0
	})
	eventually(t, "no alarm is left",
		func() bool { return p.inState("shop", clock.Scheduled)+p.inState("shop", clock.Ringing) == 0 })
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "last"), map[string]any{"delay": 0})
	eventually(t, "the last ring", func() bool { d, _ := got.byID(); return d["last"] == 1 })
	distinct, copies := got.byID()
	again := 0
	for id, n := range distinct {
		if n != 1 || l.cancelled[id] {
			t.Errorf("%s rang as %d messages, cancelled: %t", id, n, l.cancelled[id])
		}
		again += copies[id] - 1
	}
	t.Logf("%d alarms accepted, %d not accepted, %d cancelled, %d rung, %d copies", len(l.accepted), l.refused,
		len(l.cancelled), len(distinct), again)
}
