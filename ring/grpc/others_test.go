package grpc

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/targettest"
)

// openOthers returns a bench with a gateway that speaks HTTP/2 in plain text. The gateway does not read the messages to
// receivers that hang, and has small windows, so these messages use the windows up.
func openOthers(t *testing.T) *targettest.OthersBench {
	t.Helper()
	g := &targettest.Gateway{}
	server := &http.Server{
		Protocols: new(http.Protocols),
		HTTP2:     &http.HTTP2Config{MaxReceiveBufferPerConnection: 1 << 16, MaxReceiveBufferPerStream: 1 << 16},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/shop.v1.Alarms/Hang" {
				g.Hang(r)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			replyOK(w)
		}),
	}
	server.Protocols.SetUnencryptedHTTP2(true)
	g.Serve(t, server)
	registry := prometheus.NewRegistry()
	b := openTarget(t, func(d *Deps) { d.Registerer = registry })
	b.SetPatience(20*time.Second, time.Minute)
	return &targettest.OthersBench{
		Others: &targettest.Others{
			T: t, Target: b.Target, Registry: registry,
			InFlight: "clockd_grpc_calls_in_flight", Overdue: "clockd_grpc_overdue_calls_in_flight",
		},
		Gateway: g,
		Point: func(application string, host int, mayHang bool, concurrency int) {
			b.point(application, g.URL(host), func(m *Method) {
				m.Timeout, m.Concurrency = time.Minute, concurrency
				if mayHang {
					m.Name = "shop.v1.Alarms/Hang"
				}
			})
		},
		Rings: func(application string, n int) (all []clock.Ring) {
			for range n {
				r := testRing()
				r.Application, r.Payload = application, make([]byte, 10_000)
				all = append(all, *r)
			}
			return all
		},
	}
}

// Many servers hang, and do not read their messages. A healthy application and a new one are served, also on the host
// of the servers that hang.
func TestServersThatHangDoNotHoldUpOthers(t *testing.T) { targettest.RunOthers(t, openOthers) }
