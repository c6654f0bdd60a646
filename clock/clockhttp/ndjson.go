package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/semaphore"

	"github.com/clockd/clockd/clock"
)

// lineStream takes ops line by line and answers them in order, while it reads on. The handler's goroutine reads,
// decodes and submits; a second one waits for the outcomes and writes. Between them is the window: so many lines,
// so many bytes. When it is full nothing is read, and so in the end the client cannot send.
type lineStream struct {
	s       *Server
	app     string
	trace   string
	request *http.Request
	conn    *http.ResponseController
	w       http.ResponseWriter
	in      *lineReader
	window  chan windowLine
	bytes   *semaphore.Weighted // of Config.WindowBytes
}

// windowLine is a line that waits for its answer.
type windowLine struct {
	item
	line int64 // from 1
	size int64 // of the window's bytes
}

const (
	// answerBytes is when answers are written at the latest; they are at once when the next one is not ready.
	answerBytes = 32 << 10
	// overloadPatience is how long a line waits for a place in the queue of writes before it is answered 503.
	overloadPatience = 5 * time.Second
	// refusedBytes is what a line that is refused takes of the window: its message.
	refusedBytes = 1024
)

// ndjson answers a stream of lines. Once it has begun, it can only end: well, or by being cut.
func (s *Server) ndjson(c echo.Context, app string) error {
	held := int64(2*LineBytes + answerBytes + s.cfg.WindowBytes)
	if !s.bodies.take(held) {
		return &clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second, Detail: "too many streams at once; repeat later",
		}
	}
	defer s.bodies.give(held)
	st := &lineStream{
		s: s, app: app, trace: traceparentOf(c.Request().Header),
		request: c.Request(), conn: http.NewResponseController(c.Response().Writer), w: c.Response(),
		in:     newLineReader(s.timedBody(c, time.Time{})),
		window: make(chan windowLine, s.cfg.WindowOps), bytes: semaphore.NewWeighted(int64(s.cfg.WindowBytes)),
	}
	defer s.metrics.open(c, "batchAlarms")()
	if err := st.begin(c); err != nil {
		return err
	}
	return st.run()
}

// begin sends the head of the answer before a byte of the body is read, for a client may wait for it. A client
// that waits for 100 Continue gets that first: after the head it would not be sent any more.
func (st *lineStream) begin(c echo.Context) error {
	if err := st.conn.EnableFullDuplex(); err != nil {
		return fmt.Errorf("enable full duplex: %w", err)
	}
	st.deadline()
	if strings.EqualFold(c.Request().Header.Get("Expect"), "100-continue") {
		c.Response().Writer.WriteHeader(http.StatusContinue)
	}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, ndjsonType)
	h.Set(echo.HeaderCacheControl, "no-store")
	c.Response().WriteHeader(http.StatusOK)
	if err := st.conn.Flush(); err != nil {
		return errCut
	}
	return nil
}

func (st *lineStream) deadline() {
	_ = st.conn.SetWriteDeadline(time.Now().Add(st.s.cfg.WriteTimeout)) // not supported by test recorders alone
}

// run reads and answers until the body ends, either side fails, or the server stops.
func (st *lineStream) run() error {
	ctx, cancel := context.WithCancel(st.s.stopping)
	defer cancel()
	unblocked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(unblocked)
		_ = st.conn.SetReadDeadline(time.Unix(1, 0)) // ends a read under way
	})
	var answering sync.WaitGroup
	var wrote error
	answering.Go(func() {
		if wrote = st.answerAll(); wrote != nil {
			cancel()
		}
	})
	read := st.readAll(ctx, &answering)
	if !stop() {
		<-unblocked
	}
	if wrote != nil {
		return wrote
	}
	return read
}

// readAll submits line after line. It returns when everything read is answered, also if it panics.
func (st *lineStream) readAll(ctx context.Context, answering *sync.WaitGroup) error {
	defer answering.Wait()
	defer close(st.window)
	for n := int64(1); ; n++ {
		line, err := st.in.next(ctx)
		switch {
		case errors.Is(err, errEndOfLines):
			return nil
		case ctx.Err() != nil:
			return errCut
		case err != nil && !errors.Is(err, errLineTooLong):
			return brokenBody(err)
		}
		w, err := st.take(ctx, n, line, err)
		if err != nil {
			return err
		}
		select {
		case st.window <- w:
		case <-ctx.Done():
			return errCut
		}
	}
}

// take decodes a line and submits it once the window has room for it. refused says why it is not even decoded.
func (st *lineStream) take(ctx context.Context, n int64, line []byte, refused error) (windowLine, error) {
	w := windowLine{line: n, size: refusedBytes}
	var op clock.Op
	var id string
	if refused == nil {
		op, id, refused = st.decode(line)
	}
	if refused == nil {
		w.size = min(int64(op.Size()), int64(st.s.cfg.WindowBytes))
	}
	if err := st.bytes.Acquire(ctx, w.size); err != nil {
		return w, errCut
	}
	if refused != nil {
		w.item = refusedItem(id, refused)
		return w, nil
	}
	w.item = item{businessID: id, pending: st.submit(ctx, op)}
	return w, nil
}

// decode reads a line: a set, or a cancel.
func (st *lineStream) decode(line []byte) (op clock.Op, id string, err error) {
	decoded, err := decodeSet(line, lineBody)
	set := &decoded.set
	if err != nil {
		return op, set.BusinessID, err
	}
	set.Application, set.Traceparent = st.app, st.trace
	if err := set.Key.Validate(); err != nil { // here, so that the window holds no id longer than that
		return op, set.BusinessID, err
	}
	if decoded.isCancel {
		return clock.Op{Cancel: &clock.Cancel{Key: set.Key, Brief: true}}, set.BusinessID, nil
	}
	return clock.Op{Set: set}, set.BusinessID, nil
}

// submit submits op. While the queue of writes is full it waits instead, so that a stream slows down before it fails; what
// follows waits behind it, so that the order stays.
func (st *lineStream) submit(ctx context.Context, op clock.Op) *clock.Pending {
	const firstWait, longestWait = 5 * time.Millisecond, 200 * time.Millisecond
	begun := time.Now()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		p := st.s.alarms.Submit(op)
		if !overloaded(p) || time.Since(begun) > overloadPatience {
			return p
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return p
		}
	}
}

// overloaded reports whether p was refused because the queue of writes is full.
func overloaded(p *clock.Pending) bool {
	select {
	case <-p.Done():
	default:
		return false
	}
	_, err := p.Wait(context.Background())
	e, ok := errors.AsType[*clock.Error](err)
	return ok && e.Code == clock.CodeOverloaded
}

// answerAll writes the results in order until the window is closed and empty, or the client does not take them.
func (st *lineStream) answerAll() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	out := make([]byte, 0, answerBytes+1024)
	for w := range st.window {
		if len(out) > 0 && !w.ready() {
			if out, err = st.write(out); err != nil {
				return err
			}
		}
		d, err := w.outcome()
		out = st.appendResult(out, &w, d, err)
		st.bytes.Release(w.size)
		if len(out) < answerBytes && len(st.window) > 0 {
			continue
		}
		if out, err = st.write(out); err != nil {
			return err
		}
	}
	_, err = st.write(out)
	return err
}

// appendResult appends the result of a line. A failure of the server is 503 whatever it was: the line may be repeated.
func (st *lineStream) appendResult(b []byte, w *windowLine, d *clock.Decision, err error) []byte {
	r := resultOf(&w.item, d, err)
	if r.problem != nil {
		st.s.note(st.request, r.problem)
		if r.problem.serverFault() {
			r.status = http.StatusServiceUnavailable
		}
	}
	st.s.metrics.countItem("ndjson", r.status)
	return append(r.append(b, w.line), '\n')
}

// write writes and flushes what is in out and returns it empty.
func (st *lineStream) write(out []byte) ([]byte, error) {
	if len(out) == 0 {
		return out, nil
	}
	st.deadline()
	_, err := st.w.Write(out)
	if err == nil {
		err = st.conn.Flush()
	}
	if err != nil {
		resetOnClose(st.request)
		return out, &problem{Status: http.StatusRequestTimeout, Code: codeStreamCut, Detail: "the answers could not be written: " + err.Error()}
	}
	return out[:0], nil
}

// errCut ends a stream before its body.
var errCut = &problem{
	Status: http.StatusServiceUnavailable, Code: codeStreamCut, Detail: "the node is stopping, or the answers could not be written",
}
