package clockhttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/settings"
)

// http2 returns a client that speaks HTTP/2 without TLS.
func (h *harness) http2() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	h.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: &contractTransport{t: h.t, next: transport}}
}

func TestRoutesAlsoSpeakHTTP2(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.client = h.http2()
	h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h","payload":{"n":1}}`)
	h.expect(200, "", "GET", alarms+"/a", "")
	h.expect(422, "out_of_range", "PUT", alarms+"/a", `{"delay":"1h","priority":10}`)
	h.expect(403, "cross_site", "PUT", alarms+"/a", `{"delay":"2h"}`, "Origin: http://evil.example")
	r := h.expect(200, "", "POST", alarms, `{"set":[{"business_id":"b","delay":"1h"}]}`,
		"Content-Type: application/json")
	if !strings.Contains(string(r.body), `"status":201`) {
		t.Errorf("batch: %s", r.body)
	}
}

// A write deadline of HTTP/2 resets its stream when it passes. A stream that writes nothing for longer than
// WriteTimeout must live on. The timeout is wide, because each write must meet it on a busy machine, too.
func TestStreamsOverHTTP2OutliveTheWriteTimeout(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) {
		su.cfg.WriteTimeout, su.cfg.Heartbeat = 3*time.Second, 4*time.Second
		su.deps.Streams = newFakeStreams()
	})
	response, err := h.http2().Get(h.url + "/v1/applications/shop/rings")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	body, send := io.Pipe()
	defer send.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+alarms, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", ndjsonType)
	results, err := h.http2().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer results.Body.Close()
	result := bufio.NewReader(results.Body)
	for i := range 2 {
		if e := event(t, lines); e != ": clockd\n" && (i != 0 || !firstEvent.MatchString(e)) {
			t.Fatalf("comment %d: %q", i, e)
		}
		if _, err := io.WriteString(send, `{"business_id":"a","delay":"1h"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		if line, err := result.ReadString('\n'); err != nil || !strings.Contains(line, `"status":20`) {
			t.Fatalf("result %d: %q, %v", i, line, err)
		}
	}
}

// A flush of HTTP/2 ends before the kernel has the bytes. Rings count as written only when it has them.
func TestRingsOverHTTP2AreWrittenForCertain(t *testing.T) {
	t.Parallel()
	streams, pulls := newFakeStreams(), &fakePulls{deliveries: make(chan clock.Delivery, 1),
		counts: make(chan int, 100)}
	fake := &fakeSettings{applied: settings.Applied{Target: clock.TargetPull, Reservable: true, Subscribable: true}}
	h := start(t, func(su *setup) { su.deps.Streams, su.deps.Pulls, su.deps.Settings = streams, pulls, fake })
	h.client = h.http2()
	for range 20 {
		reported := pulls.give(nil, testRing(clock.Text, "x"), testRing(clock.Text, "y"))
		if r := h.expect(200, "", "POST", reserveURL, `{"count":2}`); strings.Count(string(r.body), `"message_id"`) != 2 {
			t.Errorf("%s", r.body)
		}
		if d := <-reported; d != (done{2, 2, nil}) {
			t.Fatalf("a reserve reported %+v", d)
		}
	}
	in, _ := h.subscribe()
	for i := range 20 {
		reported := make(chan done, 1)
		streams.deliveries <- clock.Delivery{Rings: []clock.Ring{testRing(clock.Text, "x")}, Done: func(written, begun int, err error) {
			reported <- done{written, begun, err}
		}}
		if d := <-reported; d != (done{1, 1, nil}) {
			t.Fatalf("delivery %d reported %+v", i, d)
		}
		for e := ": clockd\n"; e == ": clockd\n"; {
			if e = event(t, in); firstEvent.MatchString(e) {
				e = ": clockd\n"
			} else if e != ": clockd\n" && !strings.HasPrefix(e, "event: ring\n") {
				t.Fatalf("%q", e)
			}
		}
	}
}

// Idle streams over HTTP/2 have half of the memory of running requests. Further ones are refused, and other requests
// are served.
func TestStreamsOverHTTP2LeaveMemory(t *testing.T) {
	t.Parallel()
	const places = 4
	h := start(t, func(su *setup) {
		su.cfg.Connections, su.deps.Streams = 2*places, newFakeStreams()
	})
	h.client = h.http2()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i, want := range []int{200, 200, 503} {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/v1/applications/shop/rings", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := h.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if response.StatusCode != want {
			t.Fatalf("stream %d of %d places: %d", i, places, response.StatusCode)
		}
	}
	h.expect(503, "overloaded", "POST", alarms, "", "Content-Type: "+ndjsonType)
	h.expect(404, "unknown_alarm", "GET", alarms+"/a", "")
	cancel()
	for status := 0; status != 200; { // the places are free again when the streams have ended
		status = h.do("POST", alarms, "", "Content-Type: "+ndjsonType).status
	}
}

// closedConn is a connection of HTTP/2 whose client opens no window: it takes no byte of a body.
type closedConn struct {
	t      testing.TB
	framer *http2.Framer
	path   string // of requests
	next   uint32 // number of the next stream
}

func (h *harness) closedConn() *closedConn {
	h.t.Helper()
	return h.rawConn(http2.Setting{ID: http2.SettingInitialWindowSize})
}

// rawConn returns a connection of HTTP/2 with these settings.
func (h *harness) rawConn(settings ...http2.Setting) *closedConn {
	h.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = conn.Close() })
	c := &closedConn{t: h.t, framer: http2.NewFramer(conn, conn), path: alarms + "/unknown", next: 1}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		h.t.Fatal(err)
	}
	if err := errors.Join(c.framer.WriteSettings(settings...), c.framer.WriteSettingsAck()); err != nil {
		h.t.Fatal(err)
	}
	return c
}

// get begins a request, with that many headers.
func (c *closedConn) get(headers int) {
	c.t.Helper()
	if err := c.tryGet(headers); err != nil {
		c.t.Fatal(err)
	}
}

func (c *closedConn) tryGet(headers int) error {
	c.t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "127.0.0.1"},
		{Name: ":path", Value: c.path},
	}
	for i := range headers {
		fields = append(fields, hpack.HeaderField{Name: "h" + strconv.Itoa(i)})
	}
	for _, f := range fields {
		if err := encoder.WriteField(f); err != nil {
			c.t.Fatal(err)
		}
	}
	err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next, BlockFragment: block.Bytes(),
		EndStream: true, EndHeaders: true})
	c.next += 2
	return err
}

// answer is what a client without a window sees of a response.
type answer struct {
	status  string // of headers
	aborted bool   // the stream was reset
}

// answers reads until all requests have got headers or a reset.
func (c *closedConn) answers() map[uint32]answer {
	c.t.Helper()
	all := map[uint32]answer{}
	for len(all) < int(c.next/2) {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatal(err)
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			all[f.StreamID] = answer{status: f.PseudoValue("status")}
		case *http2.RSTStreamFrame:
			all[f.StreamID] = answer{aborted: true}
		}
	}
	return all
}

// Finished requests whose clients open no window count as running, so a client cannot leave more of them behind than
// there is memory. Of the refused requests, too, only some wait for their client. Another client is served.
func TestClosedWindowsHoldBoundedMemory(t *testing.T) {
	t.Parallel()
	const places, conns = 20, 4
	h := start(t, func(su *setup) { su.cfg.Connections = 2 * places })
	got := map[answer]int{}
	for range conns {
		c := h.closedConn()
		for range front.MaxStreams {
			c.get(0)
		}
		for _, a := range c.answers() {
			got[a]++
		}
	}
	if refused := got[answer{status: "503"}] + got[answer{aborted: true}]; got[answer{status: "404"}] != places ||
		refused != conns*front.MaxStreams-places {
		t.Errorf("%d places for %d requests: got %v", places, conns*front.MaxStreams, got)
	}
	if held := h.server.front.Memory.InUse(front.Requests); held != places*front.RequestBytes {
		t.Errorf("%d bytes are held", held)
	}
	if waiting := h.server.refusals.waiting.Load(); waiting > 2*maxBrief {
		t.Errorf("%d refusals wait", waiting)
	}
	h.expect(404, "unknown_alarm", "GET", alarms+"/a", "") // over HTTP/1.1
}

// A request with many headers takes several times their length of memory.
func TestHeadsOverHTTP2TakeMemory(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.Connections = 16 })
	c := h.closedConn()
	for range 8 {
		c.get(200)
	}
	served := 0
	for _, a := range c.answers() {
		if a.status == "404" {
			served++
		}
	}
	if served != 3 {
		t.Errorf("%d of 8 requests with 200 headers are served", served)
	}
}

// A client that opens no window, and sends heads that are too large, gets a bounded number of net/http's own responses
// before its connection is not read any more, and then ends. Another client is served.
func TestUnreadResponsesOfTheServerItselfAreBounded(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.ReadHeaderTimeout = time.Second })
	c := h.closedConn()
	for range 60 {
		if err := c.tryGet(400); err != nil {
			break // the connection has ended
		}
	}
	statuses := map[string]int{}
	for {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			break
		}
		if f, is := frame.(*http2.MetaHeadersFrame); is {
			statuses[f.PseudoValue("status")]++
		}
	}
	if got := statuses["431"]; len(statuses) != 1 || got < front.MaxUnserved || got > front.MaxUnserved+1 {
		t.Errorf("the responses are %v", statuses)
	}
	h.expect(404, "unknown_alarm", "GET", alarms+"/a", "")
}

// A client that takes its responses may send as many heads that are too large as it likes, beside requests that are
// served.
func TestReadResponsesOfTheServerItselfDoNotEndTheConnection(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.rawConn()
	const half = 45 // fewer requests than the streams of a connection
	for range 5 {
		for range half {
			c.get(400)
			c.get(0)
		}
		got := map[string]int{}
		for ended := 0; ended < 2*half; {
			frame, err := c.framer.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch f := frame.(type) {
			case *http2.MetaHeadersFrame:
				got[f.PseudoValue("status")]++
			case *http2.DataFrame:
				if f.StreamEnded() {
					ended++
				}
				if n := uint32(len(f.Data())); n > 0 {
					if err := c.framer.WriteWindowUpdate(0, n); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if got["431"] != half || got["404"] != half {
			t.Fatalf("the responses are %v", got)
		}
	}
}
