package clockhttp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

func TestStreamGivesOneResultForEachLine(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.stream()
	c.send(`{"business_id":"a","ring_at":2000000000000}` + "\n")
	c.expect(1, "a 201 1 scheduled")
	c.send(`{"business_id":"a","ring_at":2000000000000}` + "\r\n" + `{"cancel":"a"}` + "\n")
	c.expect(2, "a 200 1 scheduled")
	c.expect(3, "a 200 1 cancelled")
	c.send(`{"cancel":"zz"}` + "\n\n" + `{"cancel":` + "\n" + `{"cancel":"a","delay":1}` + "\n" + `{"cancel":null}` + "\n" + `{"delay":1}` + "\n[]\n" + "\xff\n")
	c.expect(4, "zz 404 0  unknown_alarm")
	c.expect(5, "400 0  not_json")
	c.expect(6, "400 0  not_json")
	c.expect(7, "a 422 0  ambiguous cancel")
	c.expect(8, "422 0  invalid_value cancel")
	c.expect(9, "422 0  required business_id")
	c.expect(10, "422 0  invalid_value")
	c.expect(11, "400 0  not_json")
	c.send(`{"business_id":"last","delay":"1h"}`)
	_ = c.in.Close()
	c.expect(12, "last 201 1 scheduled")
	c.expectEnd()
}

// TestStreamMayLastLongerThanItsTimeouts checks that the timeouts apply to each read and each write, not to the whole
// stream.
func TestStreamMayLastLongerThanItsTimeouts(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second // long enough for a machine that others use
	h := start(t, func(su *setup) { su.cfg.WriteTimeout, su.cfg.ReadTimeout = timeout, timeout })
	c := h.stream()
	tick := time.NewTicker(timeout / 5)
	defer tick.Stop()
	for i := range 7 {
		<-tick.C
		c.send(`{"cancel":"a"}` + "\n")
		c.expect(i+1, "a 404 0  unknown_alarm")
	}
	_ = c.in.Close()
	c.expectEnd()
}

// TestResultDoesNotWaitForTheNextLine expects the first line's result while the store still writes the second line.
func TestResultDoesNotWaitForTheNextLine(t *testing.T) {
	t.Parallel()
	first, second := make(chan struct{}), make(chan struct{})
	gates := make(chan chan struct{}, 2)
	gates <- first
	gates <- second
	h := start(t, func(su *setup) {
		su.service.Writer.GroupOps, su.service.Writer.Committers = 1, 1
		su.store.hold = func() { <-<-gates }
	})
	c := h.stream()
	c.send(`{"business_id":"a","delay":"1h"}` + "\n" + `{"business_id":"b","delay":"1h"}` + "\n" + `{"cancel":3}` + "\n")
	h.do("GET", "/healthz", "") // gives the server time to read both lines
	close(first)
	c.expect(1, "a 201 1 scheduled")
	close(second)
	c.expect(2, "b 201 1 scheduled")
	c.expect(3, "422 0  invalid_value cancel")
	_ = c.in.Close()
	c.expectEnd()
}

// TestStreamResultsRepeatNoLongValues matters because a window of refused lines would otherwise hold megabytes.
func TestStreamResultsRepeatNoLongValues(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.stream()
	long := strings.Repeat("x", 100_000)
	go func() {
		for _, line := range []string{
			`{"business_id":"` + long + `","delay":1}`, `{"cancel":"` + long + `"}`,
			`{"business_id":"a","` + long + `":1}`, `{"business_id":"a","delay":"` + long + `"}`,
			`{"business_id":"a","ring_at":"` + long + `"}`, `{"business_id":"a","if":"` + long + `"}`,
			`{"business_id":"a","delay":1,"content_type":"` + long + `"}`,
			`{"business_id":"a","delay":1,"retry":{"` + long + `":1}}`,
			`{"business_id":"a","delay":1,"retry":{"cap":"` + long + `"}}`,
		} {
			c.send(line + "\n")
		}
		_ = c.in.Close()
	}()
	n := 0
	for ; c.out.Scan(); n++ {
		if len(c.out.Bytes()) > 500 || !bytes.Contains(c.out.Bytes(), []byte(`"status":422`)) {
			t.Errorf("%.200s ... of %d bytes", c.out.Bytes(), len(c.out.Bytes()))
		}
	}
	if n != 9 || c.out.Err() != nil {
		t.Errorf("%d results, %v", n, c.out.Err())
	}
}

func TestStreamConnectionIsUsedAgain(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 3 {
		c := h.stream()
		c.send(`{"cancel":"a"}` + "\n")
		c.expect(1, "a 404 0  unknown_alarm")
		_ = c.in.Close()
		c.expectEnd()
		h.expect(200, "", "GET", "/healthz", "")
	}
}

func TestStreamSends100ContinueBeforeItsHead(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.transport.ExpectContinueTimeout = time.Hour
	c := h.stream("Expect: 100-continue")
	c.send(`{"cancel":"a"}` + "\n")
	c.expect(1, "a 404 0  unknown_alarm")
	_ = c.in.Close()
	c.expectEnd()
}

func TestStreamTakesLinesUpToTheCap(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.stream()
	pad := func(id string, n int) string {
		line := `{"business_id":"` + id + `","delay":"1h","text":"x"}`
		return line + strings.Repeat(" ", n-len(line))
	}
	go func() {
		c.send(pad("a", LineBytes) + "\n" + pad("b", LineBytes) + "\r\n" + pad("c", LineBytes+1) + "\n" + pad("d",
			10*LineBytes) + "\n")
		c.send(strings.Repeat("x", 10*LineBytes) + "\n" + pad("e", 100) + "\n" + pad("f",
			LineBytes+1) + "\r\n" + pad("g", 2*LineBytes))
		_ = c.in.Close()
	}()
	for i, want := range []string{
		"a 201 1 scheduled", "b 201 1 scheduled", "413 0  line_too_long", "413 0  line_too_long",
		"413 0  line_too_long",
		"e 201 1 scheduled", "413 0  line_too_long", "413 0  line_too_long",
	} {
		c.expect(i+1, want)
	}
	c.expectEnd()
}

func TestServerFailureAffectsOnlyItsLine(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.service.Writer.GroupOps, su.service.Writer.Committers = 1, 1 })
	h.store.failWith(func(op clock.Op) error {
		switch op.Key().BusinessID {
		case "b":
			return clock.Unavailable(errors.New("gone"))
		case "c":
			return clock.Unconfirmed(errors.New("gone"))
		case "d":
			return errors.New("a surprise")
		}
		return nil
	})
	c := h.stream()
	for _, id := range []string{"a", "b", "c", "d", "e"} {
		c.send(`{"business_id":"` + id + `","delay":"1h"}` + "\n")
	}
	_ = c.in.Close()
	c.expect(1, "a 201 1 scheduled")
	c.expect(2, "b 503 0  unavailable")
	c.expect(3, "c 503 0  unconfirmed")
	c.expect(4, "d 503 0  internal")
	c.expect(5, "e 201 1 scheduled")
	c.expectEnd()
}

// TestStreamSlowsDownBeforeItFails makes the queue of writes smaller than the window. Still no line is refused.
func TestStreamSlowsDownBeforeItFails(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) {
		su.service.Writer.GroupBytes, su.service.Writer.QueueBytes = 256<<10, 256<<10
		su.service.MaxPayload = 64 << 10
	})
	const n = 200
	c := h.stream()
	go func() {
		text := strings.Repeat("x", 16<<10)
		for i := range n {
			c.send(fmt.Sprintf(`{"business_id":"%d","delay":"1h","text":"%s"}`+"\n", i, text))
		}
		_ = c.in.Close()
	}()
	for i := range n {
		c.expect(i+1, fmt.Sprintf("%d 201 1 scheduled", i))
	}
	c.expectEnd()
}

// TestStreamOfManyLinesKeepsItsMemory expects a result for every line, in order, also for the over-long line in the
// middle. The memory must not grow with the number of lines.
func TestStreamOfManyLinesKeepsItsMemory(t *testing.T) { streamLines(t, 100_000) }

func streamLines(t *testing.T, n int) {
	const heapLimit = uint64(48 << 20)
	h := start(t, func(su *setup) { su.store.keep = false })
	conn := h.dial()
	sent := make(chan error, 1)
	go func() { sent <- sendLines(conn, n, n/2) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	begun, out, before := time.Now(), bufio.NewReader(resp.Body), heap()
	peak := before
	for i := 1; i <= n; i++ {
		line, err := out.ReadSlice('\n')
		if err != nil {
			t.Fatalf("result %d: %v", i, err)
		}
		want := fmt.Appendf(nil, `{"line":%d,"business_id":"order-%d","status":201,`, i, i)
		if i == n/2 {
			want = fmt.Appendf(nil, `{"line":%d,"status":413,`, i)
		}
		if !bytes.HasPrefix(line, want) {
			t.Fatalf("result %d: %s", i, line)
		}
		if i%(n/20) == 0 {
			peak = max(peak, heap())
		}
	}
	if rest, err := io.ReadAll(out); err != nil || len(rest) > 0 {
		t.Errorf("after the last result: %q, %v", rest, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	t.Logf("%.0f lines a second, heap %d KiB before, %d KiB at most", float64(n)/time.Since(begun).Seconds(),
		before>>10, peak>>10)
	if peak-before > heapLimit {
		t.Errorf("the heap grew by %d bytes", peak-before)
	}
}

// hangLimit is the time after which a test gives a wait up. It is long, because other programs may use the machine too.
const hangLimit = 5 * time.Minute

// heap returns the bytes in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// dial opens a plain connection to the server.
func (h *harness) dial() net.Conn {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.server.port.Addr().String())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const streamHead = "POST " + alarms + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"

// sendLines sends a request with n lines in chunks, then closes the sending half. The line with number overlong is over
// the cap.
func sendLines(conn net.Conn, n, overlong int) error {
	w := bufio.NewWriterSize(conn, 64<<10)
	fmt.Fprint(w, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
	for i := 1; i <= n; i++ {
		line := fmt.Sprintf(`{"business_id":"order-%d","ring_at":2000000000000,"payload":{"order":%d}}`+"\n", i, i)
		if i == overlong {
			line = strings.Repeat("x", LineBytes+1) + "\n"
		}
		if _, err := fmt.Fprintf(w, "%x\r\n%s\r\n", len(line), line); err != nil {
			return err
		}
	}
	fmt.Fprint(w, "0\r\n\r\n")
	if err := w.Flush(); err != nil {
		return err
	}
	return conn.(*net.TCPConn).CloseWrite()
}

// TestClientThatStopsReadingIsCut fills the client's TCP window. The write deadline passes, and the server goes on
// without the client. The client may learn this much later: while its window is closed, its kernel may refuse the
// reset, and it probes less and less often.
//
// The test does not make the client's receive buffer smaller. On an open connection this would take announced window
// back. The kernel would then drop the server's packets, also its window updates. In about 5 % of the runs, both
// directions stood still while the server had nothing left to read or to write.
func TestClientThatStopsReadingIsCut(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.WriteTimeout, su.store.keep = 300*time.Millisecond, false })
	conn := h.dial()
	sent := make(chan error, 1)
	go func() { sent <- sendLines(conn, 10_000_000, -1) }()
	h.awaitMetric(`clockd_http_problems_total`, "stream_cut", 1)
	h.expect(200, "", "GET", "/healthz", "")
	h.wantNoMemory()
	_ = conn.Close()
	if err := <-sent; err == nil {
		t.Error("ten million lines were taken from a client that reads nothing")
	}
}

// TestClientThatStopsSendingIsCut expects the results of all complete lines before the cut.
func TestClientThatStopsSendingIsCut(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.ReadTimeout = 2 * time.Second })
	c := h.stream()
	c.send(`{"business_id":"a","delay":"1h"}` + "\n" + `{"business_id":"b","delay":"1h"}`)
	c.expect(1, "a 201 1 scheduled")
	c.expectCut()
	h.expect(404, "unknown_alarm", "GET", alarms+"/b", "")
}

func TestClientThatHalfClosesGetsItsResults(t *testing.T) {
	t.Parallel()
	const lines = `{"business_id":"a","delay":"1h"}` + "\n" + `{"business_id":"b","delay":"1h"}` + "\n"
	for name, c := range map[string]struct {
		request string
		whole   bool
	}{
		"after a whole body":         {fmt.Sprintf(streamHead+"Content-Length: %d\r\n\r\n%s", len(lines), lines), true},
		"in the midst of a body":     {fmt.Sprintf(streamHead+"Content-Length: %d\r\n\r\n%s", len(lines)+10, lines+`{"bus`), false},
		"before a chunked body ends": {fmt.Sprintf(streamHead+"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(lines), lines), false},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			conn := h.dial()
			fmt.Fprint(conn, c.request)
			_ = conn.(*net.TCPConn).CloseWrite()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, err := io.ReadAll(resp.Body)
			if got := strings.Count(string(b), `"status":201`); got != 2 || (err == nil) != c.whole {
				t.Errorf("%d results, end %v: %s", got, err, b)
			}
		})
	}
}

func TestStreamIsCutWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.stream()
	c.send(`{"business_id":"a","delay":"1h"}` + "\n")
	c.expect(1, "a 201 1 scheduled")
	h.stop() // returns although the client has not ended its body
	c.expectCut()
}

// TestWaitingLinesOfAClientThatLeftAreDropped fills the queue of writes, so that lines wait long in it.
func TestWaitingLinesOfAClientThatLeftAreDropped(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	h := start(t, func(su *setup) {
		su.service.Writer.GroupOps = 10
		su.store.hold = func() { <-release }
	})
	queued := func() int { n, _ := h.server.alarms.(*clock.Service).Undecided(); return n }
	const lines = 500
	conn := h.dial()
	fmt.Fprint(conn, streamHead+"Transfer-Encoding: chunked\r\n\r\n")
	for i := range lines {
		line := fmt.Sprintf(`{"business_id":"order-%d","delay":"1h"}`+"\n", i)
		fmt.Fprintf(conn, "%x\r\n%s\r\n", len(line), line)
	}
	for queued() < lines {
		<-time.After(10 * time.Millisecond)
	}
	_ = conn.Close()
	for h.store.dropped.Load() == 0 && queued() > 0 { // releases a group now and then, until the server notices
		select {
		case release <- struct{}{}:
		case <-time.After(200 * time.Millisecond):
		}
		<-time.After(200 * time.Millisecond)
	}
	close(release)
	for queued() > 0 {
		<-time.After(10 * time.Millisecond)
	}
	written, dropped := h.store.count(), h.store.dropped.Load()
	t.Logf("%d of %d lines were written, %d dropped", written, lines, dropped)
	if dropped == 0 || int64(written)+dropped != lines {
		t.Errorf("%d of %d lines were written after their client had left, %d dropped", written, lines, dropped)
	}
}

// FuzzStream checks that every body gets one result for each line, in order, and that the stream ends normally.
func FuzzStream(f *testing.F) {
	f.Add([]byte(`{"business_id":"a","delay":1}` + "\n" + `{"cancel":"a"}` + "\n"))
	f.Add([]byte("\n\n\r\n{}\n[]\nnull\n\"x\"\n{\"cancel\":1}\n{\"business_id\":\"\xff\"}"))
	f.Add([]byte(`{"business_id":"a","delay":1,"text":"` + strings.Repeat("x", 70_000) + `"}`))
	f.Add(bytes.Repeat([]byte("x"), LineBytes+1))
	shared := start(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		h := *shared
		h.t, h.client = t, &http.Client{Transport: &contractTransport{t: t, next: h.transport}}
		r := h.do("POST", alarms, string(body), "Content-Type: "+ndjsonType)
		want := bytes.Count(body, []byte("\n"))
		if len(body) > 0 && body[len(body)-1] != '\n' {
			want++
		}
		lines := bytes.Split(bytes.TrimSuffix(r.body, []byte("\n")), []byte("\n"))
		if len(r.body) == 0 {
			lines = nil
		}
		if len(lines) != want {
			t.Fatalf("%d results to %d lines: %s", len(lines), want, r.body)
		}
		for i, line := range lines {
			var got itemResult
			if err := json.Unmarshal(line, &got); err != nil || got.Line != i+1 || got.Status >= 500 ||
				got.Status < 200 {
				t.Fatalf("result %d: %s, %v", i, line, err)
			}
		}
	})
}
