//go:build soak

package clockhttp

import (
	"net"
	"testing"
	"time"
)

// TestSoakClientThatStopsReadingIsCut: its window is full, its deadline passes, and the server goes on without it.
//
// It is here and not among the usual tests because about one run in five of the whole package, never of this test alone, ends
// after two minutes with the client blocked and no handler left; why is not known yet.
func TestSoakClientThatStopsReadingIsCut(t *testing.T) {
	h := start(t, func(su *setup) { su.cfg.WriteTimeout, su.store.keep = 300*time.Millisecond, false })
	conn := h.dial()
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	err := sendLines(conn, 10_000_000, -1) // ends when the server cuts the connection
	if err == nil {
		t.Error("ten million lines were taken from a client that reads nothing")
	}
	h.expect(200, "", "GET", "/healthz", "")
	h.awaitMetric(`clockd_http_problems_total`, "stream_cut", 1)
	if left := h.server.bodies.left.Load(); left != h.server.cfg.BodyBytes {
		t.Errorf("%d bytes of bodies are still taken", h.server.cfg.BodyBytes-left)
	}
}

func TestSoakStreamOfTenMillionLines(t *testing.T) { streamLines(t, 10_000_000) }
