package front

import (
	"net/http"
	"time"

	"github.com/clockd/clockd/clock"
)

// net/http sees no TLS (see tlsConn), so every client of HTTP/2 begins with its preface, as gRPC does without TLS. Many
// requests share one HTTP/2 connection, so what one request does to its connection over HTTP/1.1 must not happen here.

// receiveBuffer is the most memory in bytes that an HTTP/2 connection holds of bodies that no handler has read yet. It
// is the least that HTTP/2 allows, because it does not count in Memory.
const receiveBuffer = 64 << 10

// MaxStreams is the most requests that run at once on a connection of HTTP/2. net/http decodes their heads before any
// handler can refuse them.
const MaxStreams = 100

// Time in which a silent HTTP/2 connection is checked with a ping, and in which the ping must be answered.
const (
	silentLimit = 8 * time.Second
	pingLimit   = 12 * time.Second
)

// speakHTTP2 lets the server speak HTTP/2 beside HTTP/1.1 on the same port, with and without TLS.
func speakHTTP2(server *http.Server, cfg Config) {
	server.Protocols = new(http.Protocols)
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: MaxStreams, MaxReceiveBufferPerConnection: receiveBuffer,
		MaxReceiveBufferPerStream: receiveBuffer,
		SendPingTimeout:           silentLimit, PingTimeout: pingLimit, WriteByteTimeout: cfg.WriteTimeout,
	}
}

// Memory of a running request of HTTP/2 in bytes: its goroutine, its buffers and a usual head; and of each header
// beside its text, because a head of many short headers takes several times its length.
const (
	RequestBytes = 16 << 10
	headerBytes  = 128
)

// TakePlace takes a place for a request of HTTP/2 that may last: a stream, or a worker that waits for rings. Such
// requests have at most half of the memory of running requests, so that idle ones leave room for others. Give the place
// back with release.
func (f *Front) TakePlace(r *http.Request) (release func(), err error) {
	release = func() {}
	if r.ProtoMajor == 1 {
		return release, nil
	}
	size := RequestSize(r)
	if f.lasting.Add(size) > f.Memory.reserved[Requests]/2 {
		f.lasting.Add(-size)
		return release, &clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
			Detail: "too many streams over HTTP/2 at once; repeat later",
		}
	}
	return func() { f.lasting.Add(-size) }, nil
}

// RequestSize returns the memory of a running request.
func RequestSize(r *http.Request) int64 {
	head := 2 * len(r.RequestURI)
	for name, values := range r.Header {
		for _, v := range values {
			head += headerBytes + 2*(len(name)+len(v))
		}
	}
	return int64(RequestBytes + max(0, head-usualHead))
}

// usualHead is the memory of a head that RequestBytes has room for.
const usualHead = 4 << 10

// FlushWithin waits until the client has taken the response, at most for a time. Without it, net/http would wait after
// the handler.
func FlushWithin(w http.ResponseWriter, r *http.Request, most time.Duration) {
	conn := http.NewResponseController(w)
	_ = conn.SetWriteDeadline(time.Now().Add(most)) // only test recorders do not support it
	if conn.Flush() == nil {
		EndWriteDeadline(conn, r)
	}
}

// EndWriteDeadline clears the deadline of a write that has succeeded. On HTTP/2 a deadline resets its stream when it
// passes, also while the stream writes nothing. On HTTP/1.1 it stays for the bytes that net/http writes after the
// handler.
func EndWriteDeadline(conn *http.ResponseController, r *http.Request) {
	if r.ProtoMajor > 1 {
		_ = conn.SetWriteDeadline(time.Time{}) // only test recorders do not support it
	}
}
