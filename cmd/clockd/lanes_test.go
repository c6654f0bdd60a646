package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// brokerProxy is a TCP proxy in front of RabbitMQ. It delays or cuts connections.
type brokerProxy struct {
	listener net.Listener
	broker   string
	wait     sync.WaitGroup

	mu    sync.Mutex
	delay time.Duration // wait before the first bytes from the broker on a connection are passed on
	cut   laneCut
	late  time.Duration     // wait before bytes from the broker on an open lane are passed on
	lanes int               // cut connections
	conns map[net.Conn]bool // open connections of both sides; nil after the end
}

// laneCut is the moment at which the proxy cuts a lane's connection.
type laneCut int

const (
	cutNever     laneCut = iota
	cutOpening           // the lane has logged in
	cutAtOpen            // the channel is open and in confirm mode
	cutAtPublish         // the first bytes of a delivery have arrived
)

// proxied returns a proxy in front of the broker of rawURL, and the URL of the proxy.
func proxied(t *testing.T, rawURL string) (p *brokerProxy, via string) {
	t.Helper()
	u := parse(t, rawURL)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p = &brokerProxy{listener: listener, broker: u.Host, conns: map[net.Conn]bool{}}
	p.wait.Go(p.accept)
	t.Cleanup(p.close)
	through := *u
	through.Host = listener.Addr().String()
	return p, through.String()
}

func (p *brokerProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.broker)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &proxyConn{p: p, client: client, server: server}
		if p.add(client, server) {
			p.wait.Go(c.up)
			p.wait.Go(c.down)
		}
	}
}

func (p *brokerProxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.conns == nil {
			_ = c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return p.conns != nil
}

func (p *brokerProxy) setFault(delay time.Duration, cut laneCut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.cut = delay, cut
}

func (p *brokerProxy) fault() (time.Duration, laneCut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay, p.cut
}

// setLate makes the confirms on lanes late.
func (p *brokerProxy) setLate(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = late
}

func (p *brokerProxy) lateness() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late
}

// cuts returns how many connections were cut.
func (p *brokerProxy) cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lanes
}

func (p *brokerProxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
	p.mu.Unlock()
	p.wait.Wait()
}

// proxyConn is one connection through the proxy.
type proxyConn struct {
	p              *brokerProxy
	client, server net.Conn

	mu   sync.Mutex
	lane bool // the client has named itself a lane connection
	open bool // the broker has put its channel into confirm mode
}

// confirmSelectOk are the bytes of the method confirm.select-ok in its frame: class 85, method 11.
var confirmSelectOk = []byte{0, 85, 0, 11, 0xce}

// up passes on the bytes from the client.
func (c *proxyConn) up() {
	c.pass(c.client, c.server, func(b []byte) (cut bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lane = c.lane || bytes.Contains(b, []byte("lane connection"))
		_, when := c.p.fault()
		return c.lane && c.open && when == cutAtPublish
	})
}

// down passes on the bytes from the broker.
func (c *proxyConn) down() {
	first := true
	c.pass(c.server, c.client, func(b []byte) (cut bool) {
		delay, when := c.p.fault()
		if first {
			first = false
			<-time.After(delay)
		}
		if c.opened() {
			<-time.After(c.p.lateness())
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = c.open || bytes.Contains(b, confirmSelectOk)
		if c.lane && (when == cutOpening || c.open && when == cutAtOpen) {
			_, _ = c.client.Write(b)
			return true
		}
		return false
	})
}

// opened reports whether the connection is an open lane.
func (c *proxyConn) opened() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lane && c.open
}

// pass copies from one side to the other until a side ends or look returns true.
func (c *proxyConn) pass(from, to net.Conn, look func([]byte) (cut bool)) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && look(buf[:n]) {
			c.p.mu.Lock()
			c.p.lanes++
			c.p.mu.Unlock()
			return
		}
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

// check returns the named check of /readyz, and whether the node is ready.
func (p *process) check(name string) (status, detail string, ready bool) {
	p.t.Helper()
	a, err := p.do(http.MethodGet, "/readyz", nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, c := range a.Checks {
		if c.Name == name {
			return c.Status, c.Detail, a.Ready
		}
	}
	return "", "", a.Ready
}

// Connections to the broker take longer to open than a ring may take to be written. Alarms ring nevertheless.
func TestAlarmsRingOverSlowConnectionsToTheBroker(t *testing.T) {
	t.Parallel()
	p, via := proxied(t, amqpURL())
	p.setFault(1200*time.Millisecond, cutNever)
	b := dialBroker(t, amqpURL())
	node := start(t, "CLOCKD_DATABASE_URL="+mariadb(t), "CLOCKD_AMQP_URL="+via, "CLOCKD_AMQP_EXCHANGE="+b.exchange)
	got := b.receive("shop")
	const count = 193
	node.set("shop", "order", count,
		func(i int) time.Time { return time.Now().Add(time.Duration(i) * 20 * time.Millisecond) })
	defer func() {
		status, detail, _ := node.check("target")
		t.Logf("%d of %d arrived in %v claims; target is %s %s", len(got.all()), count,
			node.metric("clockd_ring_claim_seconds_count"), status, detail)
	}()
	eventually(t, "all alarms ring", func() bool { d, _ := got.byID(); return len(d) == count })
}

// Lanes are cut again and again. That costs few claims, and readiness shows it. Alarms ring when the cuts end.
func TestCutLanesCostFewClaims(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]laneCut{"opening": cutOpening, "at open": cutAtOpen, "at publish": cutAtPublish} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, via := proxied(t, amqpURL())
			p.setFault(0, when)
			b := dialBroker(t, amqpURL())
			node := start(t, "CLOCKD_DATABASE_URL="+postgres(t), "CLOCKD_AMQP_URL="+via,
				"CLOCKD_AMQP_EXCHANGE="+b.exchange)
			got := b.receive("shop")
			const count = 1000
			node.setMany("shop", "order", count, time.Now(), 1)
			<-time.After(10 * time.Second)
			claims, cuts := node.metric("clockd_ring_claim_seconds_count"), p.cuts()
			t.Logf("%d lanes cut, %v claims, of %v rows", cuts, claims, node.metric("clockd_ring_batch_rings_sum"))
			if claims > 60 {
				t.Errorf("%v claims in 10 s for lanes that were cut", claims)
			}
			if cuts == 0 {
				t.Error("no lane was cut")
			}
			seen := node.metric("clockd_ring_lane_failures_total")
			if seen == 0 || !strings.Contains(node.log.String(), "lane to the target") {
				t.Errorf("%v lane failures are counted", seen)
			}
			if when != cutAtPublish {
				eventually(t, "readiness names the lanes", func() bool {
					status, detail, ready := node.check("lanes")
					return ready && status == statusFailing && detail != ""
				})
			}
			p.setFault(0, cutNever)
			eventually(t, "all alarms ring", func() bool { d, _ := got.byID(); return len(d) == count })
			eventually(t, "the checks are ok again", func() bool {
				status, _, _ := node.check("lanes")
				return status == statusOK
			})
			for i := range 3 {
				if a := node.must(http.StatusOK, http.MethodGet, alarmPath("shop", fmt.Sprintf("order-%d", i)), nil); a.RetryTimes != 0 {
					t.Errorf("a try was counted: %+v", a)
				}
			}
		})
	}
}

// The broker confirms the rings of all applications late, each delivery at a moment of its own. No ring is published
// again, and no application is taken for silent.
func TestLateConfirmsOfAllApplicationsMakeNoCopies(t *testing.T) {
	t.Parallel()
	proxy, via := proxied(t, amqpURL())
	b := dialBroker(t, amqpURL())
	p := start(t, "CLOCKD_DATABASE_URL="+postgres(t), "CLOCKD_AMQP_URL="+via, "CLOCKD_AMQP_EXCHANGE="+b.exchange)
	applications := []string{"shop", "stock", "mail"}
	received := map[string]*receiver{}
	for _, a := range applications {
		received[a] = b.receive(a)
	}
	proxy.setLate(6 * time.Second)
	const count = 400
	due := time.Now().Add(2 * time.Second)
	for _, a := range applications {
		p.set(a, "order", count, func(i int) time.Time { return due.Add(time.Duration(i) * 25 * time.Millisecond) })
	}
	for _, a := range applications {
		eventually(t, "all alarms ring", func() bool { return len(copiesOf(received[a])) == count })
	}
	proxy.setLate(0)
	eventually(t, "all late confirms are written", func() bool { return p.metric("clockd_ring_awaited") == 0 })
	if p.metric(`clockd_ring_late_replies_total{outcome="confirmed"}`) == 0 {
		t.Error("no confirm was late")
	}
	for _, a := range applications {
		for id, copies := range copiesOf(received[a]) {
			if copies > 1 {
				t.Errorf("%s of %s rang %d times: %+v", id, a, copies,
					p.must(http.StatusOK, http.MethodGet, alarmPath(a, id), nil).Attempts)
			}
		}
	}
}
