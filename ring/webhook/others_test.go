package webhook

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/httpcall"
	"github.com/clockd/clockd/ring/targettest"
)

// openOthers returns a bench with a gateway, and with a patience that a machine which others use does not exhaust.
func openOthers(
	t *testing.T, patience time.Duration, change ...func(*Config, *Deps),
) (*bench, *targettest.OthersBench) {
	t.Helper()
	g := &targettest.Gateway{}
	g.Serve(t, &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // then the server notices that the client leaves
		if r.URL.Path == "/hang" {
			g.Hang(r)
		}
	})})
	registry := prometheus.NewRegistry()
	b := openTarget(t, append(change, func(_ *Config, d *Deps) { d.Registerer = registry })...)
	b.SetPatience(patience, time.Minute)
	return b, &targettest.OthersBench{
		Others: &targettest.Others{
			T: t, Target: b.Target, Registry: registry,
			InFlight: "clockd_webhook_requests_in_flight", Overdue: "clockd_webhook_overdue_requests_in_flight",
		},
		Gateway: g,
		Point: func(application string, host int, mayHang bool, concurrency int) {
			path := "/"
			if mayHang {
				path = "/hang"
			}
			b.point(application, g.URL(host)+path,
				func(e *Endpoint) { e.Timeout, e.Concurrency = time.Minute, concurrency })
		},
		Rings: rings,
	}
}

// Receivers that were prompt, and all hang at once, keep no slot from the others.
func TestReceiversThatHangDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	targettest.RunOthers(t, func(t *testing.T) *targettest.OthersBench {
		_, others := openOthers(t, 20*time.Second)
		return others
	})
}

// Hundreds of receivers that have never replied do not hold up a new one.
func TestUnknownReceiverDoesNotWaitForThoseThatHang(t *testing.T) {
	t.Parallel()
	_, b := openOthers(t, 5*time.Second)
	b.Gateway.StartHanging()
	var hanging []clock.Ring
	for i := range 360 {
		name := fmt.Sprint("hanging", i)
		b.Point(name, i%200, true, httpcall.DefaultConcurrency)
		hanging = append(hanging, rings(name, 3)...)
	}
	late := b.Begin(hanging...)
	b.AwaitOverdue()
	for i := range 20 {
		name := fmt.Sprint("new", i)
		b.Point(name, 210+i, false, httpcall.DefaultConcurrency)
		b.WantServed(rings(name, 3)...)
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
	b, others := openOthers(t, 20*time.Second, trust, dialTo(server))
	for _, name := range []string{"unread", "prompt"} {
		b.point(name, "https://example.com/rings", func(e *Endpoint) { e.Timeout = time.Minute })
	}
	sized := func(application string, n, size int) []clock.Ring {
		all := rings(application, n)
		for i := range all {
			all[i].Payload, all[i].PayloadKind = make([]byte, size), clock.Binary
		}
		return all
	}
	others.WantServed(rings("unread", 1)...) // so there is a connection that the others would share
	others.WantServed(rings("prompt", 1)...)
	hanging := others.Begin(sized("unread", 4, 60_000)...)
	for unread.Load() < 4 {
		<-time.After(time.Millisecond)
	}
	for range 3 {
		others.WantServed(sized("prompt", 8, 10_000)...)
	}
	late := hanging()
	wantKinds(t, late.Outcomes(), clock.Awaited) // the others did not wait for the end of these
	late.End()
}
