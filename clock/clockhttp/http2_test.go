package clockhttp

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
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
	r := h.expect(200, "", "POST", alarms, `{"set":[{"business_id":"b","delay":"1h"}]}`, "Content-Type: application/json")
	if !strings.Contains(string(r.body), `"status":201`) {
		t.Errorf("batch: %s", r.body)
	}
}

// A write deadline of HTTP/2 resets its stream when it passes. A stream that writes nothing for longer than WriteTimeout must live on.
func TestStreamsOverHTTP2OutliveTheWriteTimeout(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) {
		su.cfg.WriteTimeout, su.cfg.Heartbeat = 50*time.Millisecond, 300*time.Millisecond
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
	for i := range 3 {
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
	streams, pulls := newFakeStreams(), &fakePulls{deliveries: make(chan clock.Delivery, 1), counts: make(chan int, 100)}
	settings := &fakeSettings{applied: AppliedSettings{Target: clock.TargetPull, Reservable: true, Subscribable: true}}
	h := start(t, func(su *setup) { su.deps.Streams, su.deps.Pulls, su.deps.Settings = streams, pulls, settings })
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

// Each running request of HTTP/2 may hold what a connection of HTTP/1.1 holds, so there are at most as many.
func TestRequestsOverHTTP2AreLimitedAsConnectionsAre(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) {
		su.cfg.Connections, su.deps.Streams = 2, newFakeStreams()
	})
	client := h.http2()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 2 {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/v1/applications/shop/rings", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
	}
	h.client = client
	h.expect(503, "overloaded", "GET", alarms+"/a", "")
	cancel()
	for status := 0; status != 404; { // the places are free again when the streams have ended
		status = h.do("GET", alarms+"/a", "").status
	}
}
