package clockhttp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// TestSmallBodiesFindMemoryBesideStalledClients opens 120 idle streams, 120 streams with a stalled line, 120 stalled
// large bodies and 120 stalled small bodies. Then it fills the rest of the other classes. Every small set and a new
// stream still succeed.
func TestSmallBodiesFindMemoryBesideStalledClients(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { // on a busy machine it takes long until all are stalled
		su.cfg.BodyGrace, su.cfg.BodyTimeout, su.cfg.ReadTimeout = time.Hour, time.Hour, time.Hour
	})
	const sockets = 120
	half := strings.Repeat("x", 100_000)
	for range sockets {
		for _, request := range []string{
			streamHead + "Transfer-Encoding: chunked\r\n\r\n",
			streamHead + fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s", 2*len(half), half),
			fmt.Sprintf("PUT %s/large HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", alarms, 2*len(half),
				half),
			fmt.Sprintf("PUT %s/small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", alarms),
		} {
			if _, err := io.WriteString(h.dial(), request); err != nil {
				t.Fatal(err)
			}
		}
	}
	h.awaitMetric("clockd_http_streams", "batchAlarms", 2*sockets)
	for begun := time.Now(); h.server.front.Memory.InUse(front.SmallBodies) < sockets*100 ||
		h.server.front.Memory.InUse(front.LargeBodies) < sockets*int64(len(half)); {
		if time.Since(begun) > hangLimit {
			t.Fatal("the server did not begin to read the stalled bodies")
		}
		h.do("GET", "/healthz", "")
	}
	fill := func() { // takes all memory that large bodies and batches can still take
		for _, c := range []front.Class{front.LargeBodies, front.BatchBodies} {
			for n := int64(1 << 20); n > 0; n /= 2 {
				for h.server.front.Memory.Take(c, n) { // take until n bytes no longer fit
				}
			}
		}
	}
	fill()
	for i := range 100 {
		h.expect(201, "", "PUT", fmt.Sprintf("%s/%d", alarms, i), `{"delay":"1h"}`)
	}
	c := h.stream()
	c.send(`{"business_id":"a","delay":"1h"}` + "\n")
	c.expect(1, "a 201 1 scheduled")
	_ = c.in.Close()
	c.expectEnd()
	fill() // again: a growing body may have given its smaller buffer back
	h.expect(503, "overloaded", "PUT", alarms+"/big", `{"delay":"1h","text":"`+half[:10_000]+`"}`)
}

// TestStalledBodyIsCutBeforeTheReadTimeout sends one byte of a body, which extends the deadline only a little.
func TestStalledBodyIsCutBeforeTheReadTimeout(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.BodyGrace = 100 * time.Millisecond })
	conn := h.dial()
	fmt.Fprintf(conn, "PUT %s/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{", alarms)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 408 {
		t.Errorf("status %d", resp.StatusCode)
	}
	h.wantNoMemory()
}

// TestEachByteExtendsTheBodysDeadline also checks that the deadline ends at the longest time.
func TestEachByteExtendsTheBodysDeadline(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	for received, want := range map[int]time.Duration{0: 10 * time.Second, 16 << 10: 11 * time.Second, 160 << 10: 20 * time.Second, 8 << 20: time.Minute} {
		p := pace{begun: begun, grace: 10 * time.Second, rate: 16 << 10, longest: time.Minute, received: received}
		if got := p.deadline().Sub(begun); got != want {
			t.Errorf("%d bytes buy %v, want %v", received, got, want)
		}
	}
}

// TestStreamGivesMemoryBackWithEachResult also checks that the stream gives the rest of its memory back at its end.
func TestStreamGivesMemoryBackWithEachResult(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.stream()
	for i := range 100 {
		c.send(fmt.Sprintf(`{"business_id":"%d","delay":"1h","text":"%050000d"}`+"\n", i, i))
		c.expect(i+1, fmt.Sprintf("%d 201 1 scheduled", i))
	}
	if most := int64(idleStreamBytes + lineRoom); h.server.front.Memory.InUse(front.StreamMemory) > most+100_000 {
		t.Errorf("a stream without waiting lines holds %d bytes", h.server.front.Memory.InUse(front.StreamMemory))
	}
	_ = c.in.Close()
	c.expectEnd()
	h.wantNoMemory()
}

// TestStreamsWaitForMemory checks that a line waits while no memory is left, and then succeeds.
func TestStreamsWaitForMemory(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.stream()
	c.send(`{"business_id":"a","delay":"1h"}` + "\n")
	c.expect(1, "a 201 1 scheduled")
	var taken int64
	for n := int64(1 << 20); n > 0; n /= 2 {
		for h.server.front.Memory.Take(front.StreamMemory, n) {
			taken += n
		}
	}
	h.expect(503, "overloaded", "POST", alarms, "", "Content-Type: "+ndjsonType)
	c.send(`{"business_id":"b","delay":"1h"}` + "\n")
	h.expect(201, "", "PUT", alarms+"/small", `{"delay":"1h"}`)
	h.server.front.Memory.Give(front.StreamMemory, taken)
	c.expect(2, "b 201 1 scheduled")
	_ = c.in.Close()
	c.expectEnd()
	h.wantNoMemory()
}

// TestUnreadListsKeepWithinTheResponseMemory has 40 clients that ask for lists of large alarms and read nothing. The
// heap grows only by the response memory, and sets still succeed.
func TestUnreadListsKeepWithinTheResponseMemory(t *testing.T) {
	const clients, budget = 40, 16 << 20
	h := start(t, func(su *setup) { su.cfg.ResponseBytes = budget })
	text := []byte(strings.Repeat("x", 64<<10))
	h.store.mu.Lock()
	for i := range 1000 { // all alarms share one payload
		k := clock.Key{Application: "shop", BusinessID: fmt.Sprintf("%05d", i)}
		h.store.rows[k] = clock.Alarm{Key: k, Content: clock.Content{PayloadKind: clock.Text, Payload: text},
			RingRow: clock.RingRow{State: clock.Scheduled}, Generation: 1}
	}
	h.store.mu.Unlock()
	before := heap()
	for range clients {
		conn := h.dial()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(conn, "GET %s?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n", alarms)
	}
	for begun := time.Now(); h.server.front.Memory.InUse(front.Responses) < budget/4*3; h.do("GET", "/healthz", "") {
		if time.Since(begun) > hangLimit {
			t.Fatalf("responses hold only %d bytes", h.server.front.Memory.InUse(front.Responses))
		}
	}
	after := heap()
	t.Logf("%d bytes of responses; the heap grew by %d KiB", h.server.front.Memory.InUse(front.Responses), int64(after-before)>>10)
	if after > before+8*budget { // room for the rows that lists read and for 40 connections; without the budget the heap grows by 2.5 GB
		t.Errorf("the heap grew by %d bytes", after-before)
	}
	if h.server.front.Memory.InUse(front.Responses) > budget {
		t.Errorf("responses hold %d bytes", h.server.front.Memory.InUse(front.Responses))
	}
	h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h"}`)
}

// TestClientThatDoesNotReadItsListIsCut checks that a write deadline ends the request, and that its memory is given
// back.
func TestClientThatDoesNotReadItsListIsCut(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.WriteTimeout = 300 * time.Millisecond })
	for i := range 200 {
		k := clock.Key{Application: "shop", BusinessID: fmt.Sprintf("%05d", i)}
		h.store.rows[k] = clock.Alarm{Key: k,
			Content: clock.Content{PayloadKind: clock.Text, Payload: []byte(strings.Repeat("x", 64<<10))},
			RingRow: clock.RingRow{State: clock.Scheduled}, Generation: 1}
	}
	for range 10 {
		conn := h.dial()
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		fmt.Fprintf(conn, "GET %s?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n", alarms)
	}
	h.awaitMetric("clockd_http_request_duration_seconds", "listAlarms", 10)
	h.wantNoMemory()
}

// TestPageEndsBeforeTheAlarmThatExceedsTheLimit checks that a page is larger than ListBytes only if it holds a single
// alarm.
func TestPageEndsBeforeTheAlarmThatExceedsTheLimit(t *testing.T) {
	t.Parallel()
	h := start(t)
	sizes := []int{10, ListBytes - 2000, 3000, ListBytes + 10, 5, ListBytes / 2, ListBytes / 2, 7}
	for i, size := range sizes {
		k := clock.Key{Application: "shop", BusinessID: fmt.Sprint(i)}
		h.store.rows[k] = clock.Alarm{Key: k,
			Content: clock.Content{PayloadKind: clock.Binary, Payload: make([]byte, size/4*3)},
			RingRow: clock.RingRow{State: clock.Scheduled}, Generation: 1}
	}
	var ids string
	for cursor := ""; ; {
		r := h.expect(200, "", "GET", alarms+"?limit=1000"+cursor, "")
		list, _ := r.field("alarms").([]any)
		for _, a := range list {
			ids += a.(map[string]any)["business_id"].(string)
		}
		ids += " "
		if len(r.body) > ListBytes && len(list) != 1 {
			t.Errorf("%d alarms on a page of %d bytes", len(list), len(r.body))
		}
		next, more := r.field("next_cursor").(string)
		if !more {
			break
		}
		cursor = "&cursor=" + url.QueryEscape(next)
	}
	if ids != "01 2 3 45 67 " {
		t.Errorf("pages %q", ids)
	}
	h.wantNoMemory()
}

// heldReads holds every read until its context ends.
type heldReads struct {
	Alarms
	begun, ended chan struct{}
}

func (r *heldReads) hold(ctx context.Context) error {
	r.begun <- struct{}{}
	<-ctx.Done()
	r.ended <- struct{}{}
	return clock.Unavailable(ctx.Err())
}

func (r *heldReads) Get(ctx context.Context, _ clock.Key) (*clock.Alarm, error) {
	return nil, r.hold(ctx)
}

func (r *heldReads) List(
	ctx context.Context, _ clock.ListQuery, _ func(*clock.Alarm) bool,
) (clock.ListPosition, error) {
	return clock.ListPosition{}, r.hold(ctx)
}

// TestReadsEndWhenTheirClientLeaves also checks the response to a client that closes only its sending half.
func TestReadsEndWhenTheirClientLeaves(t *testing.T) {
	t.Parallel()
	reads := &heldReads{begun: make(chan struct{}), ended: make(chan struct{})}
	h := start(t, func(su *setup) { su.deps.Alarms = reads })
	for _, path := range []string{alarms, alarms + "/x"} {
		conn := h.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		<-reads.begun
		_ = conn.Close()
		<-reads.ended

		conn = h.dial()
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
		<-reads.begun
		_ = conn.(*net.TCPConn).CloseWrite()
		<-reads.ended
		b, err := io.ReadAll(conn)
		if err != nil || !strings.Contains(string(b), "client_left") {
			t.Errorf("%s: %q, %v", path, b, err)
		}
		h.expect(400, "unexpected_body", "GET", path, "x")
	}
}

// While unread responses have all of their memory, reads are refused. Changes and probes get their responses.
func TestReadsNeedMemoryForTheirResponses(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.deps.Stats = fixedStats{} })
	h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h"}`)
	var taken int64
	for n := int64(1 << 20); n > 0; n /= 2 {
		for h.server.front.Memory.Take(front.Responses, n) {
			taken += n
		}
	}
	reads := []string{alarms, alarms + "/a", alarms + "/a/events", "/v1/stats"}
	for _, path := range reads {
		h.expect(503, "overloaded", "GET", path, "")
	}
	h.expect(200, "", "PUT", alarms+"/a", `{"delay":"2h"}`)
	h.expect(200, "", "GET", "/readyz", "")
	h.server.front.Memory.Give(front.Responses, taken)
	for _, path := range reads {
		h.expect(200, "", "GET", path, "")
	}
	h.wantNoMemory()
}

// slowDeadline is a response whose SetReadDeadline waits until it is released.
type slowDeadline struct {
	http.ResponseWriter
	begun, release chan struct{}
}

func (s *slowDeadline) SetReadDeadline(time.Time) error {
	close(s.begun)
	<-s.release
	return nil
}

// net/http forbids a deadline after the handler has ended: over HTTP/2 it could end the process. So the handler waits
// for a deadline that the stopping server is setting.
func TestHandlerWaitsForTheDeadlineOfAStoppingServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared, err := front.New(DefaultConfig().Config, front.Deps{Log: quiet(), Registerer: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		s := &Server{front: shared}
		w := &slowDeadline{begun: make(chan struct{}), release: make(chan struct{})}
		done := s.cutsWhenStopping(&timedReader{conn: http.NewResponseController(w)})
		shared.Stop()
		<-w.begun
		ended := make(chan struct{})
		go func() {
			done()
			close(ended)
		}()
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the handler has ended while the deadline is being set")
		default:
		}
		close(w.release)
		<-ended
	})
}
