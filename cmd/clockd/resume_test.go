package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
)

// lossyProxy passes connections on to clockd. When it is cut, it first takes bytes from clockd without passing them on,
// as the buffers of a network do, and then closes its connections.
type lossyProxy struct {
	listener net.Listener
	server   string

	mu      sync.Mutex
	swallow bool
	conns   []net.Conn
	running sync.WaitGroup
}

func startLossyProxy(t *testing.T, server string) *lossyProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &lossyProxy{listener: l, server: server}
	p.running.Go(p.serve)
	t.Cleanup(func() {
		_ = l.Close()
		p.closeAll()
		p.running.Wait()
	})
	return p
}

func (p *lossyProxy) serve() {
	for {
		down, err := p.listener.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = down.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, down, up)
		p.mu.Unlock()
		p.running.Go(func() { _, _ = io.Copy(up, down); _ = up.Close() })
		p.running.Go(func() { _, _ = io.Copy(lossyWriter{p, down}, up); _ = down.Close() })
	}
}

// lossyWriter drops what is written while the proxy swallows.
type lossyWriter struct {
	p *lossyProxy
	w io.Writer
}

func (l lossyWriter) Write(b []byte) (int, error) {
	l.p.mu.Lock()
	swallow := l.p.swallow
	l.p.mu.Unlock()
	if swallow {
		return len(b), nil
	}
	return l.w.Write(b)
}

func (p *lossyProxy) setSwallow(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.swallow = on
}

func (p *lossyProxy) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// A client loses its connection again and again in the middle of a flow of rings, each time with rings that clockd has
// written. Each flow is set when the one before was cut, so that a slow machine cuts it as well. It resumes: each alarm
// rings, and its copies have one message id. An alarm that was cancelled in the meantime never rings.
func TestResumedStreamLosesNoRing(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			const flow, lost, cuts = 300, 60, 4
			const count = cuts * (flow + lost)
			p := startOn(t, e.open(t), nil)
			proxy := startLossyProxy(t, strings.TrimPrefix(p.url, "http://"))
			got := consumeThrough(t, proxy, "shop")
			for i := range 20 { // these must not wait for ack_timeout
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("ack-", i)),
					map[string]any{"ring_at": time.Now().Add(time.Duration(i) * 200 * time.Millisecond).UnixMilli(),
						"ack_timeout": "24h"})
			}
			cancelled := map[string]bool{}
			for cut := range cuts {
				before, due := got.number(), time.Now()
				orders := fmt.Sprint("order-", cut)
				p.set("shop", orders, flow,
					func(i int) time.Time { return due.Add(time.Duration(i) * 5 * time.Millisecond) })
				eventually(t, "rings arrive", func() bool { return got.number() > before+20 })
				proxy.setSwallow(true)
				written := p.metric("clockd_ringstream_journal_entries")
				p.set("shop", fmt.Sprint("lost-", cut), lost, func(int) time.Time { return due })
				eventually(t, "rings are lost",
					func() bool { return p.metric("clockd_ringstream_journal_entries") > written+20 })
				proxy.closeAll()
				proxy.setSwallow(false)
				for i := flow - 1; i >= 0; i -= 10 { // the last ones are mostly not due yet
					id := fmt.Sprint(orders, "-", i)
					if a, err := p.do(http.MethodDelete, alarmPath("shop", id), nil); err == nil &&
						a.Status == http.StatusOK {
						cancelled[id] = true
					}
				}
			}
			eventually(t, "each alarm that was not cancelled rings", func() bool {
				distinct, _ := got.byID()
				return len(distinct) >= count+20-len(cancelled)
			})
			ids := map[string]string{}
			for _, r := range got.all() {
				if id := ids[r.businessID]; cancelled[r.businessID] || id != "" && id != r.messageID ||
					r.arrived.Before(r.target) {
					t.Fatalf("%+v, before as %q, cancelled: %t", r, id, cancelled[r.businessID])
				}
				ids[r.businessID] = r.messageID
			}
			resent := p.metric("clockd_ringstream_resent_rings_total")
			t.Logf("%d alarms, %d cancelled, %.0f rings sent again", count, len(cancelled), resent)
			if resent == 0 {
				t.Error("no ring was lost: the test shows nothing")
			}
			eventually(t, "each ring is confirmed",
				func() bool { return p.inState("shop", clock.Scheduled) == 0 && p.inState("shop", clock.Ringing) == 0 })
		})
	}
}

// consumeThrough consumes the application's rings with the Go client, through the proxy, until the test ends.
func consumeThrough(t *testing.T, proxy *lossyProxy, application string) *receiver {
	t.Helper()
	c, err := client.New("http://" + proxy.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- c.Consume(ctx, application, client.Consumer{Handle: func(_ context.Context, ring *client.Ring) client.Answer {
			r.add(receivedRing{messageID: ring.MessageID, businessID: ring.BusinessID, claimID: ring.ClaimID,
				arrived: time.Now(), target: ring.RingAt})
			return client.Answer{Kind: client.Acked}
		}})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("consume: %v", err)
		}
	})
	return r
}
