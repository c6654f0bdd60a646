package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

// received is a request as the server got it.
type received struct {
	method, path string
	header       http.Header
	body         []byte
}

// recorder answers 204 and keeps the requests.
type recorder struct {
	mu   sync.Mutex
	seen []received
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, received{req.Method, req.URL.RequestURI(), req.Header, body})
	w.WriteHeader(http.StatusNoContent)
}

func (r *recorder) take(t *testing.T) received {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.seen) != 1 {
		t.Fatalf("the receiver has %d requests, want 1", len(r.seen))
	}
	first := r.seen[0]
	r.seen = nil
	return first
}

func fullRing() clock.Ring {
	return clock.Ring{
		AlarmID: 4711, Key: clock.Key{Application: "shop", BusinessID: "order/1 % ü"}, Generation: 3, RingNo: 2,
		Before: clock.RingRow{RetryTimes: 5, Progress: clock.Progress{
			Current:    repeat.Occurrence{Number: 5, At: 1_700_000_000_900},
			PreviousAt: 1_699_900_000_000, Next: repeat.Occurrence{Number: 6, At: 1_700_100_000_000},
		}}, RingAt: 1_700_000_000_999, RungAt: clock.Instant(time.Now().UnixMilli()),
		ClaimID: "c1",
		Payload: []byte("{\"a\": 1.0,\n \"b\":\"<\"}"), PayloadKind: clock.JSON,
		ContentType: "application/vnd.shop+json", AckTimeout: time.Minute,
		Traceparent: "00-aa-bb-01",
	}
}

func TestRequestHasExactlyThePromisedHeaders(t *testing.T) {
	t.Parallel()
	b, got := openTarget(t), &recorder{}
	b.serve("shop", got.ServeHTTP, func(e *Endpoint) {
		e.URL += "/rings?token=a%20b"
		e.Method = "PUT"
		e.Headers = map[string]string{"authorization": "Bearer x", "user-agent": "shop/1"}
	})
	full := fullRing()
	wantKinds(t, b.deliver(full), clock.Confirmed)
	r := got.take(t)
	if r.method != "PUT" || r.path != "/rings?token=a%20b" || string(r.body) != string(full.Payload) {
		t.Errorf("%s %s %q", r.method, r.path, r.body)
	}
	want := http.Header{
		"Webhook-Id": {"4711.3.2"}, "Webhook-Timestamp": {fmt.Sprint(int64(full.RungAt) / 1000)},
		"Webhook-Signature":    r.header["Webhook-Signature"],
		"X-Clockd-Application": {"shop"}, "X-Clockd-Business-Id": {"order%2F1%20%25%20%C3%BC"},
		"X-Clockd-Generation": {"3"}, "X-Clockd-Ring-No": {"2"},
		"X-Clockd-Target-Ring-At": {"1700000000999"}, "X-Clockd-Rung-At": {fmt.Sprint(int64(full.RungAt))},
		"X-Clockd-Retry-Times": {"5"},
		"X-Clockd-Occurrence":  {"5"}, "X-Clockd-Occurrence-At": {"1700000000900"},
		"X-Clockd-Occurrence-Previous-At": {"1699900000000"}, "X-Clockd-Occurrence-Next-At": {"1700100000000"},
		"X-Clockd-Claim-Id": {"c1"}, "X-Clockd-Ack-Timeout": {"60000"}, "Traceparent": {"00-aa-bb-01"},
		"Content-Type": {"application/vnd.shop+json"}, "Content-Length": {fmt.Sprint(len(full.Payload))},
		"Authorization": {"Bearer x"}, "User-Agent": {"shop/1"},
	}
	if !reflect.DeepEqual(r.header, want) {
		t.Errorf("headers\n%v, want\n%v", r.header, want)
	}
	bare := rings("shop", 1)[0]
	bare.Payload, bare.PayloadKind, bare.ContentType = nil, clock.NoPayload, "application/octet-stream"
	wantKinds(t, b.deliver(bare), clock.Confirmed)
	r = got.take(t)
	for _, name := range []string{"X-Clockd-Ack-Timeout", "Traceparent", "X-Clockd-Occurrence", "X-Clockd-Occurrence-At"} {
		if _, has := r.header[name]; has {
			t.Errorf("a ring without it has %s", name)
		}
	}
	if len(r.body) != 0 || r.header.Get("Content-Length") != "0" {
		t.Errorf("an empty payload is %q, %v", r.body, r.header)
	}
}

// The library of Standard Webhooks and the client accept each request, with the old secret and with the new one, and no
// other.
func TestSignatureIsAcceptedByTheReferenceLibraryAndTheClient(t *testing.T) {
	t.Parallel()
	b, got := openTarget(t), &recorder{}
	b.serve("shop", got.ServeHTTP,
		func(e *Endpoint) { e.Secrets = []Secret{newSecret, oldSecret} })
	check := func(secret Secret, r received) error {
		t.Helper()
		verifier, err := standardwebhooks.NewWebhook(string(secret))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := client.NewVerifier(string(secret))
		if err != nil {
			t.Fatal(err)
		}
		reference, got := verifier.Verify(r.body, r.header), ours.Verify(r.header, r.body)
		if (reference == nil) != (got == nil) {
			t.Errorf("the reference library finds %v, the client %v", reference, got)
		}
		return errors.Join(reference, got)
	}
	for _, kind := range []clock.PayloadKind{clock.JSON, clock.Text, clock.Binary, clock.NoPayload} {
		ring := fullRing()
		if ring.PayloadKind = kind; kind == clock.NoPayload {
			ring.Payload = nil
		}
		wantKinds(t, b.deliver(ring), clock.Confirmed)
		r := got.take(t)
		for _, secret := range []Secret{newSecret, oldSecret} {
			if err := check(secret, r); err != nil {
				t.Errorf("payload kind %d: %v", kind, err)
			}
		}
		if check("whsec_"+Secret(strings.Repeat("A", 32)), r) == nil {
			t.Error("another secret is accepted")
		}
		changed := r
		changed.body = append(slices.Clone(r.body), ' ')
		if check(newSecret, changed) == nil {
			t.Error("a changed body is accepted")
		}
		changed = r
		changed.header = maps.Clone(r.header)
		changed.header.Set("webhook-id", "4711.3.3")
		if check(newSecret, changed) == nil {
			t.Error("a changed id is accepted")
		}
	}
}

// The vector of the specification.
func TestSignatureHasTheValueOfTheSpecification(t *testing.T) {
	t.Parallel()
	key, err := Secret("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD").key()
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := standardwebhooks.NewWebhook("C2FVsBQIhrscChlQIMV+b5sSYspob7oD")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_674_087_231, 0)
	body := []byte(`{"type":"contact.created","timestamp":"2022-11-03T20:26:10.344522Z","data":{"id":"1f81eb52-5198-4599-803e-771906343485"}}`)
	want, err := verifier.Sign("msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", at, body)
	if err != nil {
		t.Fatal(err)
	}
	if got := signatures([][]byte{key}, "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", at.Unix(), body); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEnvelopeHoldsTheRingAndItsPayloadAsGiven(t *testing.T) {
	t.Parallel()
	const backfilled = "ring of a backfill"
	b, got := openTarget(t), &recorder{}
	b.serve("shop", got.ServeHTTP, func(e *Endpoint) { e.Body = EnvelopeBody })
	for _, c := range []struct {
		kind    clock.PayloadKind
		payload string
		member  string
	}{
		{clock.JSON, "{\"a\": 1.0,\n \"b\":\"<\"}", ",\"payload\":{\"a\": 1.0,\n \"b\":\"<\"}}"},
		{clock.Text, "a \"quote\" <b>", `,"text":"a \"quote\" <b>"` + "\n}"},
		{clock.Binary, "\x00\xff", `,"base64":"AP8="` + "\n}"},
		{clock.NoPayload, "", `"content_type":"application/vnd.shop+json","occurrence":{"number":5,"at":"2023-11-14T22:13:20.900Z",` +
			`"previous_at":"2023-11-13T18:26:40.000Z","next_at":"2023-11-16T02:00:00.000Z"}}`},
		{clock.NoPayload, backfilled, `"occurrence":{"number":null,"at":"2023-11-14T22:13:20.000Z","previous_at":"2023-11-14T22:12:20.000Z","next_at":"2023-11-14T22:14:20.000Z"}}`},
	} {
		ring := fullRing()
		if c.payload == backfilled {
			c.payload = ""
			rule, err := repeat.Parse(repeat.Spec{Every: 60_000, Anchor: new(int64(20_000))})
			if err != nil {
				t.Fatal(err)
			}
			ring.Repetition.Rule = &rule
			ring.Before.Progress.Backfill = clock.BackfillProgress{Rings: true, At: 1_700_000_000_000, Left: 1}
		}
		ring.Payload, ring.PayloadKind = []byte(c.payload), c.kind
		wantKinds(t, b.deliver(ring), clock.Confirmed)
		r := got.take(t)
		if !strings.HasSuffix(string(r.body), c.member) || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("body %s, content type %s", r.body, r.header.Get("Content-Type"))
		}
		var members map[string]any
		if err := json.Unmarshal(r.body, &members); err != nil {
			t.Fatalf("%s: %v", r.body, err)
		}
		for name, want := range map[string]any{
			"message_id": "4711.3.2", "application": "shop", "business_id": "order/1 % ü", "generation": 3.0,
			"ring_no": 2.0, "retry_times": 5.0,
			"ring_at": "2023-11-14T22:13:20.999Z",
			"rung_at": ring.RungAt.Time().UTC().Format("2006-01-02T15:04:05.000Z07:00"), "claim_id": "c1",
			"content_type": "application/vnd.shop+json",
		} {
			if members[name] != want {
				t.Errorf("%s is %v, want %v", name, members[name], want)
			}
		}
		var read client.Ring
		if err := json.Unmarshal(r.body, &read); err != nil || read.MessageID != "4711.3.2" || read.RingNo != 2 ||
			read.BusinessID != "order/1 % ü" || string(read.Payload.Bytes()) != c.payload {
			t.Errorf("the client reads %+v, %v", read, err)
		}
	}
}

// Requests of GET and DELETE have no body, over HTTP/1 and HTTP/2, and a signature of the empty body.
func TestMethodsWithoutABody(t *testing.T) {
	t.Parallel()
	verifier, err := standardwebhooks.NewWebhook(string(newSecret))
	if err != nil {
		t.Fatal(err)
	}
	for _, http2 := range []bool{false, true} {
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			got := &recorder{}
			sizes := make(chan int64, 10)
			server, trust := secureServer(t, func(w http.ResponseWriter, r *http.Request) {
				sizes <- r.ContentLength
				got.ServeHTTP(w, r)
			}, http2)
			b := openTarget(t, trust, dialTo(server))
			b.point("shop", "https://example.com/orders?x=1", func(e *Endpoint) { e.Method = method })
			ring := fullRing()
			wantKinds(t, b.deliver(ring), clock.Confirmed)
			r := got.take(t)
			if r.method != method || len(r.body) > 0 || r.header.Get("Content-Type") != "" || r.path != "/orders?x=1" ||
				r.header.Get("X-Clockd-Business-Id") == "" {
				t.Errorf("http2 %t, %s: %+v", http2, method, r)
			}
			if size := <-sizes; size > 0 || !http2 && size != 0 {
				t.Errorf("http2 %t, %s: a body of %d bytes is announced", http2, method, size)
			}
			if err := verifier.VerifyIgnoringTimestamp(r.body, r.header); err != nil {
				t.Errorf("http2 %t, %s: %v", http2, method, err)
			}
		}
	}
}
