package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/semaphore"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// lineStream takes ops line by line. It writes their results in order while it reads on. The handler's goroutine reads,
// decodes and submits. A second goroutine waits for the decisions and writes the results. Between them is the window,
// which limits the lines and their bytes. A full window stops the reading, and then the client cannot send any more.
// The stream takes the server's memory as lines arrive, and gives it back as it writes their results.
type lineStream struct {
	s           *Server
	app         string
	trace       string
	request     *http.Request
	conn        *http.ResponseController
	w           http.ResponseWriter
	lines       *lineReader
	window      *lineQueue
	windowBytes *semaphore.Weighted // free bytes of the window, Config.WindowBytes in total
	client      context.Context     //nolint:containedctx // context that ends when the client leaves
}

// windowLine is a line that waits for its result.
type windowLine struct {
	item
	line int64 // number of the line, from 1
	size int64 // bytes that the line takes of the window
}

const (
	// resultBytes is the size of buffered results at which they are written. They are written earlier when the next
	// result is not ready.
	resultBytes = 32 << 10
	// refusedBytes is the size in the window of a refused line: room for its message.
	refusedBytes = 1024
	// idleStreamBytes is the memory of a stream before a line arrives.
	idleStreamBytes = firstLineBuffer + 4<<10
)

// ndjson serves a stream of lines. After begin it cannot send a problem: the stream ends normally, or the server cuts
// it.
func (s *Server) ndjson(c echo.Context, app string) error {
	leave, err := s.front.TakePlace(c.Request())
	defer leave()
	if err != nil {
		return err
	}
	if !s.front.Memory.Take(front.StreamMemory, idleStreamBytes) {
		return &clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
			Detail: "too many streams at once; repeat later",
		}
	}
	defer s.front.Memory.Give(front.StreamMemory, idleStreamBytes)
	st := &lineStream{
		s: s, app: app, trace: clock.ParseTraceparent(c.Request().Header["Traceparent"]),
		request: c.Request(), conn: http.NewResponseController(c.Response().Writer), w: c.Response(),
		window: newLineQueue(), windowBytes: semaphore.NewWeighted(int64(s.cfg.WindowBytes)),
	}
	st.lines = newLineReader(s.streamBody(c), st.growBuffer)
	defer func() { s.front.Memory.Give(front.StreamMemory, st.lines.held()) }()
	defer s.openStream(c, "batchAlarms")()
	if err := st.begin(c); err != nil {
		return err
	}
	return st.run()
}

// begin sends the head of the response before it reads a byte of the body, because a client may wait for the head. A
// client that waits for 100 Continue gets it before the head, because net/http does not send it after the head.
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
	front.EndWriteDeadline(st.conn, st.request)
	return nil
}

func (st *lineStream) deadline() {
	_ = st.conn.SetWriteDeadline(time.Now().Add(st.s.cfg.WriteTimeout)) // only test recorders do not support it
}

// run reads lines and writes results until the body ends, either side fails, or the server stops.
func (st *lineStream) run() error {
	ctx, cancel := context.WithCancel(st.s.front.Stopping())
	defer cancel()
	var left context.CancelFunc
	st.client, left = context.WithCancel(st.request.Context())
	defer left()
	unblocked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(unblocked)
		_ = st.conn.SetReadDeadline(time.Unix(1, 0)) // ends a waiting read
	})
	var writing sync.WaitGroup
	var wrote error
	writing.Go(func() {
		if wrote = st.writeResults(); wrote != nil {
			left()
			cancel()
		}
	})
	read := st.readLines(ctx, &writing, left)
	st.freeRest()
	if !stop() {
		<-unblocked
	}
	if wrote != nil {
		return wrote
	}
	return read
}

// readLines reads and submits line after line. It returns, even if it panics, only after the results of all lines are
// written. It calls left when the body breaks off, because the client may have left. Then lines that wait long in the
// queue are dropped.
func (st *lineStream) readLines(ctx context.Context, writing *sync.WaitGroup, left func()) error {
	defer writing.Wait()
	defer st.window.close()
	for n := int64(1); ; n++ {
		line, err := st.lines.next(ctx)
		switch {
		case errors.Is(err, errEndOfLines):
			return nil
		case ctx.Err() != nil:
			return errCut
		case errors.Is(err, errNoMemory):
			return errNoMemory
		case err != nil && !errors.Is(err, errLineTooLong):
			left()
			return brokenBody(err)
		}
		w, err := st.take(ctx, n, line, err)
		if err != nil {
			return err
		}
		st.window.push(w)
	}
}

// take decodes a line, waits for room in the window and submits the line. A refused that is not nil is the reason why
// the line must not be decoded.
func (st *lineStream) take(ctx context.Context, n int64, line []byte, refused error) (windowLine, error) {
	w := windowLine{line: n, size: refusedBytes}
	var op clock.Op
	var id string
	if refused == nil {
		op, id, refused = st.decode(line)
	}
	if refused == nil { // the token may have ended since the stream began
		refused = st.s.front.CheckCaller(st.request)
	}
	if refused == nil {
		w.size = int64(op.Size())
		if err := front.CallerOf(st.request).Wait(ctx); err != nil {
			return w, errCut
		}
	}
	w.size = min(max(w.size, int64(st.s.cfg.WindowBytes/st.s.cfg.WindowOps)), int64(st.s.cfg.WindowBytes))
	if err := st.windowBytes.Acquire(ctx, w.size); err != nil {
		return w, errCut
	}
	if err := st.reserve(ctx, w.size); err != nil {
		st.windowBytes.Release(w.size)
		return w, err
	}
	if refused != nil {
		w.item = refusedItem(id, refused)
		return w, nil
	}
	w.item = item{businessID: id, pending: st.submit(ctx, op)}
	return w, nil
}

// growBuffer takes memory for the line reader's buffer.
func (st *lineStream) growBuffer(ctx context.Context, more int64) error { return st.reserve(ctx, more) }

// reserve takes memory for the stream. While no memory is left it waits, so a stream slows down before it fails. Other
// streams give memory back within WriteTimeout, because the server cuts clients that do not take their results.
func (st *lineStream) reserve(ctx context.Context, n int64) error {
	const firstWait, longestWait = 5 * time.Millisecond, 200 * time.Millisecond
	begun := time.Now()
	for wait := firstWait; !st.s.front.Memory.Take(front.StreamMemory, n); wait = min(2*wait, longestWait) {
		if time.Since(begun) > 2*st.s.cfg.WriteTimeout {
			return errNoMemory
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errCut
		}
	}
	return nil
}

// decode reads a line: a set, or a cancel.
func (st *lineStream) decode(line []byte) (op clock.Op, id string, err error) {
	decoded, err := decodeSet(line, lineBody)
	set := &decoded.set
	if err != nil {
		return op, set.BusinessID, err
	}
	set.Application, set.Traceparent = st.app, st.trace
	if err := set.Key.Validate(); err != nil { // checked before the window holds the id, which may be too long
		return op, set.BusinessID, err
	}
	if decoded.isCancel {
		return clock.Op{Cancel: &clock.Cancel{Key: set.Key, Brief: true}}, set.BusinessID, nil
	}
	return clock.Op{Set: set}, set.BusinessID, nil
}

// submit submits op. While the queue of writes is full it waits, so a stream slows down before it fails. All later
// lines wait too, so their order stays.
func (st *lineStream) submit(ctx context.Context, op clock.Op) *clock.Pending {
	op.WithoutPayload = true
	return clock.SubmitPatiently(ctx, func() *clock.Pending { return st.s.alarms.Submit(st.client, op) },
		clock.CodeOverloaded, clock.CodeKeyOverloaded)
}

// writeResults writes the results in order until the window is closed and empty, or until a write fails.
func (st *lineStream) writeResults() (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = front.Panicked(v)
		}
	}()
	var out []byte
	var unwritten int64 // bytes in the window of the lines whose results are in out
	defer func() { st.free(unwritten) }()
	flush := func() error {
		var err error
		if out, err = st.write(out); err != nil {
			return err
		}
		st.free(unwritten)
		unwritten = 0
		return nil
	}
	for w, more := st.window.pop(); more; w, more = st.window.pop() {
		if len(out) > 0 && !w.ready() {
			if err := flush(); err != nil {
				st.free(w.size)
				return err
			}
		}
		unwritten += w.size
		d, err := w.decision()
		out = st.appendResult(out, &w, d, err)
		if len(out) < resultBytes && !st.window.empty() {
			continue
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return flush()
}

// free gives size bytes back to the window and to the server's memory.
func (st *lineStream) free(size int64) {
	st.windowBytes.Release(size)
	st.s.front.Memory.Give(front.StreamMemory, size)
}

// freeRest gives back the memory of the lines without a written result. Such lines remain after a failed write.
func (st *lineStream) freeRest() {
	for w, more := st.window.pop(); more; w, more = st.window.pop() {
		st.free(w.size)
	}
}

// appendResult appends the result of a line. Every failure of the server gets the status 503, because the client may
// repeat the line.
func (st *lineStream) appendResult(b []byte, w *windowLine, d *clock.Decision, err error) []byte {
	r := resultOf(&w.item, d, err)
	if r.problem != nil {
		st.s.front.Note(st.request, r.problem)
		if r.problem.ServerFault() {
			r.status = http.StatusServiceUnavailable
		}
	}
	st.s.front.CountItem("ndjson", r.status)
	return append(r.append(b, w.line), '\n')
}

// write writes and flushes out. It returns an empty buffer for the next results.
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
		front.ResetOnClose(st.request)
		return out, &front.Problem{Status: http.StatusRequestTimeout, Code: front.CodeStreamCut,
			Detail: "the results could not be written: " + err.Error()}
	}
	front.EndWriteDeadline(st.conn, st.request)
	if st.window.empty() {
		return nil, nil // an idle stream holds no buffer
	}
	return out[:0], nil
}

// errNoMemory is the problem of a stream that found no memory for a line.
var errNoMemory = &front.Problem{
	Status: http.StatusServiceUnavailable, Code: front.CodeStreamCut,
	Detail: "other streams hold all stream memory; send the remaining lines again",
}

// errCut is the problem of a stream that the server ends before the body ends.
var errCut = &front.Problem{
	Status: http.StatusServiceUnavailable, Code: front.CodeStreamCut,
	Detail: "the node is stopping, or the results could not be written",
}
