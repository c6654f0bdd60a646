package webhook

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// gateway is one server with many addresses, which all receivers use.
type gateway struct {
	port    string
	hanging atomic.Bool // requests whose path begins with /hang/ get no reply
}

func openGateway(t *testing.T) *gateway {
	t.Helper()
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gateway{}
	_, g.port, _ = net.SplitHostPort(listener.Addr().String())
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // then the server notices that the client leaves
		if g.hanging.Load() && r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
	})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
	return g
}

// url returns the address of a host of the gateway.
func (g *gateway) url(host int, path string) string {
	return fmt.Sprintf("http://127.0.0.%d:%s%s", 1+host, g.port, path)
}

// openBeside returns a target with a patience that a machine which others use does not exhaust.
func openBeside(t *testing.T, patience time.Duration) (*bench, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	b := openTarget(t, func(_ *Config, d *Deps) { d.Registerer = registry })
	b.SetPatience(patience, time.Minute)
	return b, registry
}

// awaitOverdue waits until the reply of each request under way is overdue.
func (b *bench) awaitOverdue(registry *prometheus.Registry) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		values := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			b.t.Fatal(err)
		}
		for _, f := range families {
			if g := f.GetMetric()[0].GetGauge(); g != nil {
				values[f.GetName()] = g.GetValue()
			}
		}
		if n := values["clockd_webhook_requests_in_flight"]; n > 0 && n == values["clockd_webhook_overdue_requests_in_flight"] {
			return
		}
	}
	b.t.Fatal("the replies of the receivers that hang are not overdue")
}

// begin delivers rings to receivers that hang, in the background. The result waits for the end of the delivery, and returns the rings that are awaited.
func (b *bench) begin(hanging ...clock.Ring) func() ring.LateRings {
	ended := make(chan ring.LateRings)
	go func() {
		defer close(ended)
		_, late := b.deliverShared(hanging...)
		select {
		case ended <- late:
		case <-b.t.Context().Done():
		}
	}()
	b.t.Cleanup(func() {
		for range ended { // until the goroutine ends
		}
	})
	return func() ring.LateRings { return <-ended }
}

// wantServed delivers rings of an application, which must reach its receiver while others hang.
func (b *bench) wantServed(application string, n int) {
	b.t.Helper()
	outcomes, late := b.deliverShared(rings(application, n)...)
	if late != nil {
		outcomes = awaitAll(b.t, late)
	}
	wantKinds(b.t, outcomes, clock.Confirmed)
}

// Receivers that were prompt, and all hang at once, keep no slot from the others: neither on hosts of their own nor on the host that all share.
func TestReceiversThatHangDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                     string
		applications, concurrent int
		host                     func(i int) int
	}{
		{"40 applications on hosts of their own", 40, 16, func(i int) int { return i }},
		{"four applications on one host", 4, 16, func(int) int { return 0 }},
		{"two applications with many requests on one host", 2, 64, func(int) int { return 0 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := openGateway(t)
			b, registry := openBeside(t, 20*time.Second)
			var hanging []clock.Ring
			for i := range c.applications {
				name := fmt.Sprint("hanging", i)
				b.point(name, g.url(c.host(i), "/hang"), func(e *clock.Webhook) { e.Timeout, e.Concurrency = time.Minute, c.concurrent })
				b.wantServed(name, 1)
				hanging = append(hanging, rings(name, c.concurrent)...)
			}
			b.point("healthy", g.url(c.host(100), "/"))
			b.wantServed("healthy", 1)
			g.hanging.Store(true)
			late := b.begin(hanging...)
			b.awaitOverdue(registry)
			b.point("new", g.url(c.host(101), "/"))
			for range 3 {
				b.wantServed("healthy", 16)
				b.wantServed("new", 5)
			}
			late().End()
		})
	}
}

// Hundreds of receivers that have never replied do not hold up a new one.
func TestUnknownReceiverDoesNotWaitForThoseThatHang(t *testing.T) {
	t.Parallel()
	g := openGateway(t)
	b, registry := openBeside(t, 5*time.Second)
	g.hanging.Store(true)
	var hanging []clock.Ring
	for i := range 360 {
		name := fmt.Sprint("hanging", i)
		b.point(name, g.url(i%200, "/hang"), func(e *clock.Webhook) { e.Timeout = time.Minute })
		hanging = append(hanging, rings(name, 3)...)
	}
	late := b.begin(hanging...)
	b.awaitOverdue(registry)
	for i := range 20 {
		name := fmt.Sprint("new", i)
		b.point(name, g.url(210+i, "/"))
		b.wantServed(name, 3)
	}
	late().End()
}

// A receiver of HTTP/2 that does not read its bodies keeps no window from the other applications of its host.
func TestUnreadBodiesDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	var unread atomic.Int32
	server, trust := secureServer(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 20_000 {
			unread.Add(1)
			<-r.Context().Done()
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}, true, func(s *http.Server) {
		s.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 16, MaxReceiveBufferPerStream: 1 << 16}
	})
	b := openTarget(t, trust, dialTo(server))
	b.SetPatience(20*time.Second, time.Minute)
	for _, name := range []string{"unread", "prompt"} {
		b.point(name, "https://example.com/rings", func(e *clock.Webhook) { e.Timeout = time.Minute })
	}
	sized := func(application string, n, size int) []clock.Ring {
		all := rings(application, n)
		for i := range all {
			all[i].Payload, all[i].PayloadKind = make([]byte, size), clock.Binary
		}
		return all
	}
	b.wantServed("unread", 1) // so there is a connection that the others would share
	b.wantServed("prompt", 1)
	hanging := b.begin(sized("unread", 4, 60_000)...)
	for unread.Load() < 4 {
		<-time.After(time.Millisecond)
	}
	for range 3 {
		outcomes, l := b.deliverShared(sized("prompt", 8, 10_000)...)
		if l != nil {
			outcomes = awaitAll(t, l)
		}
		wantKinds(t, outcomes, clock.Confirmed)
	}
	late := hanging()
	wantKinds(t, late.Outcomes(), clock.Awaited) // the others did not wait for the end of these
	late.End()
}
