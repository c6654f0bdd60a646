package front

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
)

// net/http itself answers a request of HTTP/2 whose head is beyond Config.MaxHeaderBytes (431). If the client opens no
// window, the response stays in memory, and no handler learns of it. So a connection counts its streams without a
// handler, and is not read further while they are many: a client that takes its responses does not notice, and another
// one is cut.
//
// A request that its client resets goes on in net/http for a while, or waits there for the end of others, and the
// client may open the next one at once. So a connection with many resets is read more slowly.

// Most streams without a handler before a connection is not read further: of this connection, and of all. Beyond the
// latter a connection may have none. Shortly after its start, and before the end of its response is written, each
// request is such a stream.
const (
	MaxUnserved    = 16
	maxUnservedAll = 512
)

// Resets of streams by their client that do not slow down its connection: at once, and a second.
const (
	resetsAtOnce    = MaxStreams
	resetsPerSecond = 100
)

// errUnserved ends a connection whose client does not take the responses of net/http.
var errUnserved = errors.New("too many requests whose heads are too large, and whose responses are not read")

// streamWatch counts the streams of a connection of HTTP/2. On a connection of HTTP/1.1 it does nothing. Safe for
// concurrent use.
type streamWatch struct {
	all    *atomic.Int64 // streams without a handler of all connections
	wait   time.Duration // longest time in which the connection is not read
	closed chan struct{} // closed with the connection

	mu      sync.Mutex
	preface int                 // bytes of the client's preface so far; -1: the connection is not HTTP/2
	in, out frameScanner        // what the client and the server have sent
	newest  uint32              // highest number of a stream that the client has opened
	open    map[uint32]struct{} // streams that neither side has ended
	serving int                 // running handlers
	counted int64               // streams that all has of this connection
	resets  *rate.Limiter       // of streams that the client resets before their end
	until   time.Time           // time before which the connection is not read, because of resets; zero: it may be read
	changed chan struct{}       // capacity 1: there may be fewer streams without a handler
}

func newStreamWatch(all *atomic.Int64, wait time.Duration) *streamWatch {
	return &streamWatch{
		all: all, wait: wait, closed: make(chan struct{}), open: map[uint32]struct{}{}, changed: make(chan struct{}, 1),
		resets: rate.NewLimiter(resetsPerSecond, resetsAtOnce),
	}
}

// read notes bytes of the client.
func (w *streamWatch) read(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(b) > 0 && w.preface >= 0 && w.preface < len(http2.ClientPreface) {
		if b[0] != http2.ClientPreface[w.preface] {
			w.preface = -1
			return
		}
		w.preface++
		b = b[1:]
	}
	if !w.isHTTP2() {
		return
	}
	w.in.scan(b, func(kind http2.FrameType, _ http2.Flags, stream uint32) {
		switch {
		case kind == http2.FrameHeaders && stream > w.newest:
			w.newest = stream
			w.open[stream] = struct{}{}
		case kind == http2.FrameRSTStream:
			w.reset(stream)
		}
	})
	w.count()
}

// reset notes that the client has reset a stream.
func (w *streamWatch) reset(stream uint32) {
	if _, is := w.open[stream]; !is {
		return
	}
	delete(w.open, stream)
	now := time.Now()
	if delay := w.resets.ReserveN(now, 1).DelayFrom(now); delay > 0 {
		w.until = now.Add(delay)
	}
}

// wrote notes bytes of the server.
func (w *streamWatch) wrote(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isHTTP2() {
		return
	}
	w.out.scan(b, func(kind http2.FrameType, flags http2.Flags, stream uint32) {
		ends := (kind == http2.FrameHeaders || kind == http2.FrameData) && flags.Has(http2.FlagDataEndStream)
		if ends || kind == http2.FrameRSTStream {
			delete(w.open, stream)
		}
	})
	w.count()
}

// serve counts a running handler until the caller calls done.
func (w *streamWatch) serve() (done func()) {
	add := func(n int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.serving += n
		w.count()
	}
	add(1)
	return func() { add(-1) }
}

func (w *streamWatch) isHTTP2() bool { return w.preface == len(http2.ClientPreface) }

// count updates all, and wakes awaitServed.
func (w *streamWatch) count() {
	unserved := max(0, int64(len(w.open)-w.serving))
	w.all.Add(unserved - w.counted)
	w.counted = unserved
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// many reports whether the connection must not be read further. Within a frame it must be: the server waits for the
// rest.
func (w *streamWatch) many() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isHTTP2() || w.in.within() {
		return false
	}
	return w.counted > MaxUnserved || w.counted > 0 && w.all.Load() > maxUnservedAll
}

// awaitTurn waits until the connection may be read further.
func (w *streamWatch) awaitTurn() error {
	if err := w.awaitResets(); err != nil {
		return err
	}
	return w.awaitServed()
}

// awaitResets waits until the resets are few again.
func (w *streamWatch) awaitResets() error {
	w.mu.Lock()
	until := w.until
	w.until = time.Time{}
	w.mu.Unlock()
	if until.IsZero() {
		return nil
	}
	select {
	case <-time.After(time.Until(until)):
		return nil
	case <-w.closed:
		return net.ErrClosed
	}
}

// awaitServed waits until few streams are without a handler.
func (w *streamWatch) awaitServed() error {
	if !w.many() {
		return nil
	}
	timeout := time.NewTimer(w.wait)
	defer timeout.Stop()
	again := time.NewTicker(100 * time.Millisecond) // other connections send no signal
	defer again.Stop()
	for w.many() {
		select {
		case <-w.changed:
		case <-again.C:
		case <-w.closed:
			return net.ErrClosed
		case <-timeout.C:
			return errUnserved
		}
	}
	return nil
}

// close ends the waits, and takes the connection's streams out of all.
func (w *streamWatch) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.closed)
	w.all.Add(-w.counted)
	w.counted, w.preface = 0, -1
	clear(w.open)
}

// frameHeaderBytes is the length of a frame's header.
const frameHeaderBytes = 9

// frameScanner finds the headers of frames in a stream of bytes.
type frameScanner struct {
	header  [frameHeaderBytes]byte
	has     int // bytes of the header so far
	payload int // bytes of the frame's payload that are still to come
}

// within reports whether a frame has begun and not ended.
func (s *frameScanner) within() bool { return s.has > 0 || s.payload > 0 }

// scan calls found for each frame whose header ends in b.
func (s *frameScanner) scan(b []byte, found func(kind http2.FrameType, flags http2.Flags, stream uint32)) {
	for len(b) > 0 {
		if s.payload > 0 {
			n := min(s.payload, len(b))
			s.payload -= n
			b = b[n:]
			continue
		}
		n := copy(s.header[s.has:], b)
		s.has += n
		b = b[n:]
		if s.has < frameHeaderBytes {
			return
		}
		s.has = 0
		s.payload = int(s.header[0])<<16 | int(s.header[1])<<8 | int(s.header[2])
		found(http2.FrameType(s.header[3]), http2.Flags(s.header[4]), binary.BigEndian.Uint32(s.header[5:])&(1<<31-1))
	}
}
