package clockhttp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/ringstream"
)

// fakeStreams gives all subscribers the same channel of deliveries, so the subscribers share the deliveries.
type fakeStreams struct {
	deliveries chan clock.Delivery
	closed     chan struct{} // receives a value when a subscription closes
}

func (f *fakeStreams) Subscribe(string) clock.Subscription { return f }
func (f *fakeStreams) Deliveries() <-chan clock.Delivery   { return f.deliveries }
func (f *fakeStreams) Close()                              { f.closed <- struct{}{} }

func withStreams(f *fakeStreams) func(*setup) { return func(su *setup) { su.deps.Streams = f } }

func newFakeStreams() *fakeStreams {
	return &fakeStreams{deliveries: make(chan clock.Delivery), closed: make(chan struct{}, 10)}
}

// firstEvent matches the event at the begin of a new stream. It has no data.
var firstEvent = regexp.MustCompile(`^: clockd\nid: stream-[A-Z2-7]+\n$`)

const ringsURL = "/v1/applications/shop/rings"

func testRing(kind clock.PayloadKind, payload string) clock.Ring {
	return clock.Ring{
		AlarmID: 7, Key: clock.Key{Application: "shop", BusinessID: "a\nb/ä"}, Generation: 3, RingNo: 2,
		Before: clock.RingRow{RetryTimes: 1},
		RingAt: 1000, RungAt: 1001, ClaimID: "c1", Payload: []byte(payload), PayloadKind: kind,
		ContentType: kind.DefaultContentType(),
	}
}

func (h *harness) subscribe() (*bufio.Reader, context.CancelFunc) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	r, _ := http.NewRequestWithContext(ctx, "GET", h.url+ringsURL, nil)
	resp, err := h.client.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		h.t.Fatalf("subscribe: %d %v", resp.StatusCode, resp.Header)
	}
	return bufio.NewReader(resp.Body), cancel
}

// event reads the next event, up to its empty line.
func event(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	var b strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("after %q: %v", b.String(), err)
		}
		if line == "\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

func TestRingsAreEvents(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	h := start(t, withStreams(f))
	in, cancel := h.subscribe() // returns only after the server has flushed the head
	if e := event(t, in); !firstEvent.MatchString(e) {
		t.Errorf("the first event is %q", e)
	}
	done := make(chan error, 1)
	f.deliveries <- clock.Delivery{Done: func(_, _ int, err error) { done <- err }, Rings: []clock.Ring{
		testRing(clock.JSON, "{\"a\":\r\n [1,\n2],\"b\":\"x\\n\"}"), testRing(clock.Text, "line\nbreak\r"),
		testRing(clock.Binary, "\xff\x00"), testRing(clock.NoPayload, ""),
	}}
	if err := <-done; err != nil {
		t.Error(err)
	}
	const head = "event: ring\nid: 7.3.2\ndata: "
	const data = `{"message_id":"7.3.2","application":"shop","business_id":"a\nb/ä","generation":3,"ring_no":2,"retry_times":1,` +
		`"ring_at":"1970-01-01T00:00:01.000Z","rung_at":"1970-01-01T00:00:01.001Z","claim_id":"c1","content_type":"`
	for _, want := range []string{
		`application/json","payload":{"a":   [1, 2],"b":"x\n"}}`, `text/plain; charset=utf-8","text":"line\nbreak\r"}`,
		`application/octet-stream","base64":"/wA="}`, `application/octet-stream"}`,
	} {
		got := event(t, in)
		if got != head+data+want+"\n" {
			t.Errorf("%s, want\n%s", got, head+data+want)
		}
	}
	h.awaitMetric("clockd_http_streams", "streamRings", 1)
	cancel()
	<-f.closed
	h.awaitMetric("clockd_http_streams", "streamRings", 0)
}

func TestRingMatchesTheContract(t *testing.T) {
	t.Parallel()
	r := testRing(clock.Text, "x")
	r.BusinessID = "a"
	for timeout, want := range map[time.Duration]string{
		0:                                 `"claim_id":"c1","content_type"`,
		90*time.Second + time.Millisecond: `"claim_id":"c1","ack_timeout":"1m30s1ms","content_type"`,
	} {
		r.AckTimeout = timeout
		data, _, _ := strings.Cut(strings.SplitAfter(string(appendEvent(nil, &r)), "data: ")[1], "\n")
		if err := validateSchema("Ring", []byte(data)); err != nil || !strings.Contains(data, want) {
			t.Errorf("%s: %v, want %s", data, err, want)
		}
	}
}

func TestStreamTellsWhetherItWasResumed(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	h := start(t, withStreams(f))
	for lastID, want := range map[string]string{"": "", "7.3.2": "false"} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", h.url+ringsURL, nil)
		if lastID != "" {
			r.Header.Set("Last-Event-ID", lastID)
		}
		resp, err := h.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("X-Clockd-Resumed"); got != want {
			t.Errorf("%q: resumed %q, want %q", lastID, got, want)
		}
		in := bufio.NewReader(resp.Body)
		_, position, _ := strings.Cut(event(t, in), "\nid: ")
		_ = resp.Body.Close()
		<-f.closed
		r.Header.Set("Last-Event-ID", strings.TrimSpace(position))
		if resp, err = h.client.Do(r); err != nil {
			t.Fatal(err)
		}
		if e := event(t, bufio.NewReader(resp.Body)); resp.Header.Get("X-Clockd-Resumed") != "true" ||
			!strings.HasPrefix(e, ": clockd resumes the stream: 0 rings are sent again\nid: ") {
			t.Errorf("%v, %q", resp.Header, e)
		}
		_ = resp.Body.Close()
		<-f.closed
	}
}

func TestRingOnTheStreamHasTheTraceOfItsSet(t *testing.T) {
	t.Parallel()
	r := testRing(clock.Text, "x")
	for traceparent, want := range map[string]bool{"": false, recordedTrace: true} {
		r.Traceparent = traceparent
		data := appendRing(nil, &r)
		if err := validateSchema("Ring", data); err != nil ||
			bytes.Contains(data, []byte(`"traceparent":"`+traceparent+`"`)) != want {
			t.Errorf("%q: %s, %v", traceparent, data, err)
		}
	}
}

func TestSilentStreamHasAHeartbeat(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	h := start(t, withStreams(f), func(su *setup) { su.cfg.Heartbeat = 20 * time.Millisecond })
	in, _ := h.subscribe()
	if e := event(t, in); !firstEvent.MatchString(e) {
		t.Errorf("%q", e)
	}
	for range 3 {
		if e := event(t, in); e != ": clockd\n" {
			t.Errorf("%q", e)
		}
	}
}

// progress is what a subscriber reports of a delivery; see clock.Delivery.Done.
type progress struct{ written, begun int }

// TestUnreadFlushIsInDoubt has a subscriber that is connected but reads nothing until its stream is cut. Only the rings
// of the last flush are in doubt. The subscriber gets no ring that was not begun.
func TestUnreadFlushIsInDoubt(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	h := start(t, withStreams(f), func(su *setup) { su.cfg.WriteTimeout = 200 * time.Millisecond })
	conn := h.dial()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", ringsURL)
	const perFlush = 3
	rings := make([]clock.Ring, 2000)
	for i := range rings {
		rings[i] = testRing(clock.Text, strings.Repeat("x", 30_000))
		rings[i].AlarmID = int64(i)
	}
	done := make(chan progress, 2)
	f.deliveries <- clock.Delivery{Rings: rings, Done: func(written, begun int, err error) {
		if err == nil {
			t.Error("60 MB were flushed to a client that reads nothing")
		}
		done <- progress{written, begun}
	}}
	got := <-done
	if doubtful := got.begun - got.written; doubtful < 1 || doubtful > perFlush {
		t.Errorf("%d rings are in doubt, want at most the %d of one flush", doubtful, perFlush)
	}
	<-f.closed
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var id int
		if _, err := fmt.Sscanf(lines.Text(), "id: %d.", &id); err == nil && id >= got.begun {
			t.Errorf("the subscriber got ring %d, and only %d are begun", id, got.begun)
		}
	}
	if len(done) > 0 {
		t.Error("settled twice")
	}
}

func TestRingsEndWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	h := start(t, withStreams(f))
	in, _ := h.subscribe()
	event(t, in)
	h.stop()
	<-f.closed
	if _, err := in.ReadString('\n'); err == nil || errors.Is(err, context.Canceled) || err.Error() != "EOF" {
		t.Errorf("the stream ended with %v", err)
	}
}

func TestStreamWithoutStreamsNamesTheExchange(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.Exchange = "bells" })
	r := h.expect(409, "rings_go_elsewhere", "GET", ringsURL, "")
	if d, _ := r.field("detail").(string); !strings.Contains(d, `"bells"`) || !strings.Contains(d, `"shop"`) {
		t.Errorf("the detail does not name exchange and routing key: %s", d)
	}
	h.expect(422, "invalid_application", "GET", "/v1/applications/-/rings", "")
}

// TestLateRingsAreNotWritten delivers rings that are too late before the first byte, rings in time, and rings that
// become too late after the first flush.
func TestLateRingsAreNotWritten(t *testing.T) {
	t.Parallel()
	source := newFakeStreams()
	h := start(t, withStreams(source))
	in, _ := h.subscribe()
	event(t, in) // the first comment
	written, begun := 0, 0
	deliver := func(rings []clock.Ring, late func() bool) error {
		done := make(chan error, 1)
		source.deliveries <- clock.Delivery{Rings: rings, TooLateToWrite: late,
			Done: func(n, b int, err error) { written, begun = n, b; done <- err }}
		return <-done
	}
	if err := deliver([]clock.Ring{testRing(clock.Text, "late")}, func() bool { return true }); !errors.Is(err, ringstream.ErrTooLate) || begun > 0 {
		t.Errorf("late rings are settled with %v, %d are begun", err, begun)
	}
	if err := deliver([]clock.Ring{testRing(clock.Text, "in time")}, func() bool { return false }); err != nil {
		t.Error(err)
	}
	if got := event(t, in); !strings.Contains(got, "in time") {
		t.Errorf("after late rings the subscriber gets %q", got)
	}
	large := testRing(clock.Text, strings.Repeat("x", eventBytes))
	asked := 0
	if err := deliver([]clock.Ring{large, large}, func() bool { asked++; return asked > 1 }); !errors.Is(err, ringstream.ErrTooLate) || written != 1 || begun != 1 {
		t.Errorf("partly written rings are settled with %v, %d are written, %d are begun", err, written, begun)
	}
	if got := event(t, in); !strings.Contains(got, "xxx") {
		t.Errorf("the subscriber gets %.100q in place of the first large ring", got)
	}
	if err := deliver([]clock.Ring{testRing(clock.Text, "afterwards")}, nil); err != nil {
		t.Error(err)
	}
	if got := event(t, in); !strings.Contains(got, "afterwards") {
		t.Errorf("after partly written rings the subscriber gets %.100q", got)
	}
}

// TestEndOfDeliveryEndsItsWrite delivers more than the connection of a subscriber that does not read can take. When the
// delivery's context ends, the blocked write fails, and the stream ends with it. The rings that were flushed before
// count as written.
func TestEndOfDeliveryEndsItsWrite(t *testing.T) {
	t.Parallel()
	source := newFakeStreams()
	h := start(t, withStreams(source))
	in, _ := h.subscribe()
	event(t, in) // the first comment
	large := testRing(clock.Text, strings.Repeat("x", eventBytes))
	rings := make([]clock.Ring, 1000)
	for i := range rings {
		rings[i] = large
	}
	ctx, cancel := context.WithCancel(t.Context())
	type result struct {
		progress
		err error
	}
	done := make(chan result, 1)
	source.deliveries <- clock.Delivery{Rings: rings, Context: ctx, Done: func(written, begun int, err error) {
		done <- result{progress{written, begun}, err}
	}}
	event(t, in)
	cancel()
	got := <-done
	if got.err == nil || got.begun >= len(rings) || got.begun > got.written+1 {
		t.Errorf("%d rings are written and %d begun, %v; each flush has one ring", got.written, got.begun, got.err)
	}
}

// The end of a delivery's context between two writes ends no later write.
func TestEndOfDeliveryEndsNoLaterWrite(t *testing.T) {
	t.Parallel()
	source := newFakeStreams()
	h := start(t, withStreams(source))
	in, _ := h.subscribe()
	event(t, in) // the first comment
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		d := clock.Delivery{Rings: []clock.Ring{testRing(clock.Text, "x")}, Context: ctx,
			Done: func(_, _ int, err error) { cancel(); done <- err }}
		if i%2 > 0 {
			cancel()
		}
		source.deliveries <- d
		if err := <-done; i%2 > 0 && !errors.Is(err, ringstream.ErrTooLate) || i%2 == 0 && err != nil {
			t.Fatalf("delivery %d: %v", i, err)
		}
		if i%2 == 0 {
			event(t, in)
		}
	}
}
