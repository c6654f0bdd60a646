package clockhttp

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// HTTP/2 without TLS is for gRPC clients: they begin with its preface. Many requests share one HTTP/2 connection, so what one request does to
// its connection over HTTP/1.1 must not happen here.

// receiveBuffer is the most memory in bytes that an HTTP/2 connection holds of bodies that no handler has read yet. It is the least that
// HTTP/2 allows, because it does not count in the budget.
const receiveBuffer = 64 << 10

// Time in which a silent HTTP/2 connection is checked with a ping, and in which the ping must be answered.
const (
	silentLimit = 8 * time.Second
	pingLimit   = 12 * time.Second
)

// serveHTTP2 lets the server speak HTTP/2 beside HTTP/1.1 on the same port.
func serveHTTP2(server *http.Server, cfg Config) {
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.HTTP2 = &http.HTTP2Config{
		MaxReceiveBufferPerConnection: receiveBuffer, MaxReceiveBufferPerStream: receiveBuffer,
		SendPingTimeout: silentLimit, PingTimeout: pingLimit, WriteByteTimeout: cfg.WriteTimeout,
	}
}

// enterHTTP2 counts a running request of HTTP/2. It returns false, and has responded, if Config.Connections of them are running: each may hold
// what a connection of HTTP/1.1 holds.
func (s *Server) enterHTTP2(w http.ResponseWriter, r *http.Request) bool {
	if s.http2Requests.Add(1) <= int64(s.cfg.Connections) {
		return true
	}
	s.http2Requests.Add(-1)
	p := problemOf(&clock.Error{
		Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second, Detail: "too many requests at once; repeat later",
	})
	s.note(r, p)
	w.Header().Set(echo.HeaderContentType, problemJSON)
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(p.append(nil, requestID(r)), '\n'))
	return false
}

// closeAfter closes the connection after the response, so that net/http does not read the rest of a body. On HTTP/2 the stream alone ends.
func closeAfter(c echo.Context) {
	if c.Request().ProtoMajor == 1 {
		c.Response().Header().Set(echo.HeaderConnection, "close")
	}
}

// endWriteDeadline clears the deadline of a write that has succeeded. On HTTP/2 a deadline resets its stream when it passes, also while the
// stream writes nothing. On HTTP/1.1 it stays for the bytes that net/http writes after the handler.
func endWriteDeadline(conn *http.ResponseController, r *http.Request) {
	if r.ProtoMajor > 1 {
		_ = conn.SetWriteDeadline(time.Time{}) // only test recorders do not support it
	}
}
