package grpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

// A call has the payload as its message, and the ring and the settings in its metadata.
func TestCallCarriesTheRing(t *testing.T) {
	b, calls := openTarget(t), make(chan call, 1)
	b.point("shop", startServer(t, func(_ context.Context, c call, _ *metadata.MD) error { calls <- c; return nil }), func(m *Method) {
		m.Metadata, m.Timeout = map[string]string{"Authorization": "Bearer x"}, 7*time.Second
	})
	r := testRing()
	r.Before.Progress = clock.Progress{
		Current:    repeat.Occurrence{Number: 5, At: 1_700_000_000_900},
		PreviousAt: 1_699_900_000_000, Next: repeat.Occurrence{Number: 6, At: 1_700_100_000_000},
	}
	if o := b.deliver(r); o.Kind != clock.Confirmed || !o.Acknowledged {
		t.Fatalf("%+v", o)
	}
	c := <-calls
	if c.method != "/shop.v1.Alarms/Ring" || string(c.message) != string(r.Payload) || c.timeout <= 0 ||
		c.timeout > 7*time.Second {
		t.Errorf("%+v", c)
	}
	for name, want := range map[string]string{
		metadataID: "7.3.2", "X-Clockd-Application": "shop", "X-Clockd-Business-Id": "order%2F%C3%A4",
		metadataContentType:   "application/octet-stream",
		"X-Clockd-Generation": "3", "X-Clockd-Ring-No": "2", "X-Clockd-Target-Ring-At": "1700000000000", "X-Clockd-Retry-Times": "4",
		"X-Clockd-Claim-Id":   "claim",
		"X-Clockd-Occurrence": "5", "X-Clockd-Occurrence-At": "1700000000900",
		"X-Clockd-Occurrence-Previous-At": "1699900000000", "X-Clockd-Occurrence-Next-At": "1700100000000",
		"X-Clockd-Ack-Timeout": "60000", "traceparent": r.Traceparent, "authorization": "Bearer x", "user-agent": "clockd",
	} {
		if got := c.metadata.Get(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

// The status decides.
func TestStatusDecides(t *testing.T) {
	b := openTarget(t)
	var answer func(md *metadata.MD) error
	b.point("shop", startServer(t, func(_ context.Context, _ call, md *metadata.MD) error { return answer(md) }))
	for _, c := range []struct {
		name   string
		answer func(md *metadata.MD) error
		want   clock.Outcome
	}{
		{"OK", func(*metadata.MD) error { return nil }, clock.Outcome{Kind: clock.Confirmed, Acknowledged: true}},
		{"acknowledged later", func(md *metadata.MD) error { md.Set("x-clockd-ack", "later"); return nil },
			clock.Outcome{Kind: clock.Confirmed}},
		{
			"final", func(*metadata.MD) error { return grpcstatus.Error(codes.FailedPrecondition, "gone ä\n% on") },
			clock.Outcome{Kind: clock.Nacked, Final: true,
				Reason: "the receiver answered FAILED_PRECONDITION: it wants no further try: gone ä % on"},
		},
		{
			"another", func(*metadata.MD) error { return grpcstatus.Error(codes.InvalidArgument, "") },
			clock.Outcome{Kind: clock.Nacked, Reason: "the receiver answered INVALID_ARGUMENT"},
		},
		{
			"overloaded", func(*metadata.MD) error { return grpcstatus.Error(codes.Unavailable, "soon") },
			clock.Outcome{Kind: clock.Nacked, Reason: "the receiver answered UNAVAILABLE: soon"},
		},
	} {
		answer = c.answer
		if got := b.deliver(testRing()); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Servers may send metadata after the message.
func TestAcknowledgementMayBeAnnouncedInTheTrailers(t *testing.T) {
	b := openTarget(t)
	b.point("shop", startServer(t, func(ctx context.Context, _ call, _ *metadata.MD) error {
		return grpc.SetTrailer(ctx, metadata.Pairs("x-clockd-ack", "Later"))
	}))
	if got := b.deliver(testRing()); got != (clock.Outcome{Kind: clock.Confirmed}) {
		t.Errorf("%+v", got)
	}
}

// No reason repeats the metadata of the settings, in a message or in the type of a response.
func TestEchoingServerPutsNoMetadataIntoTheReason(t *testing.T) {
	b := openTarget(t)
	withToken := func(m *Method) {
		m.Metadata = map[string]string{"authorization": "Bearer ab/cd+4711", "x-key": "key%0815"}
	}
	b.point("shop", startServer(t, func(_ context.Context, c call, _ *metadata.MD) error {
		return grpcstatus.Error(codes.Unauthenticated,
			fmt.Sprint("not valid: ", c.metadata["authorization"], c.metadata["x-key"]))
	}), withToken)
	want := "the receiver answered UNAUTHENTICATED: not valid: [[redacted]] [[redacted]]"
	if o := b.deliver(testRing()); o.Reason != want {
		t.Errorf("got %+v", o)
	}
	b.point("shop",
		startHTTP2(t,
			func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Type", r.Header.Get("X-Key")) }),
		withToken)
	if o := b.deliver(testRing()); !strings.Contains(o.Reason, "the type [redacted] instead") {
		t.Errorf("got %+v", o)
	}
}

// A wait that the receiver asks for counts only with the statuses of an overload.
func TestPushbackIsObeyed(t *testing.T) {
	for _, c := range []struct {
		code, pushback string
		want           time.Duration
	}{
		{"14", "1500", 1500 * time.Millisecond}, {"8", "2", 2 * time.Millisecond}, {"13", "1500", 0}, {"14", "-1", 0},
		{"14", "x", 0}, {"0", "9", 0}, {"99", "9", 0},
	} {
		s, err := statusOf(http.Header{"Grpc-Status": {c.code}, "Grpc-Retry-Pushback-Ms": {c.pushback}})
		if err != nil || s.outcome(nil, nil).RetryAfter != c.want {
			t.Errorf("%s, %s: %+v, %v", c.code, c.pushback, s, err)
		}
	}
}

// A server that is not one of gRPC, and a response without a status, confirm nothing.
func TestOtherServersConfirmNothing(t *testing.T) {
	b := openTarget(t)
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   clock.OutcomeKind
		reason string
	}{
		"another type": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) },
			clock.Nacked, "instead of application/grpc"},
		"an HTTP status": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, clock.Nacked,
			"HTTP status 503"},
		"without a status":    {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "application/grpc") }, clock.Doubtful, "no status"},
		"an endless response": {endless, clock.Doubtful, "more than 1048576 bytes"},
		"a reset": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			clock.Doubtful, "without a reply"},
	} {
		t.Run(name, func(t *testing.T) {
			b.point("shop", startHTTP2(t, c.handle))
			if o := b.deliver(testRing()); o.Kind != c.want || !strings.Contains(o.Reason, c.reason) {
				t.Errorf("%+v", o)
			}
		})
	}
	server := httptest.NewServer(http.NotFoundHandler()) // speaks HTTP/1.1 only
	defer server.Close()
	b.point("shop", server.URL)
	if o := b.deliver(testRing()); o.Kind == clock.Confirmed || o.Reason == "" {
		t.Errorf("a server of HTTP/1.1: %+v", o)
	}
}

// startHTTP2 starts a server that speaks HTTP/2 in plain text, and returns its URL.
func startHTTP2(t *testing.T, handle http.HandlerFunc, change ...func(*httptest.Server)) string {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	for _, c := range change {
		c(server)
	}
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	return server.URL
}

func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	for r.Context().Err() == nil {
		if _, err := w.Write(make([]byte, 64<<10)); err != nil {
			return
		}
	}
}

// With TLS the certificate must be of a known authority, and the server must choose HTTP/2.
func TestTLS(t *testing.T) {
	authority := httptest.NewTLSServer(http.NotFoundHandler()) // has a certificate; itself it speaks HTTP/1.1 only
	defer authority.Close()
	pool := x509.NewCertPool()
	pool.AddCert(authority.Certificate())
	address := startServer(t, func(context.Context, call, *metadata.MD) error { return nil },
		grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: authority.TLS.Certificates,
			MinVersion: tls.VersionTLS12})))
	address = strings.Replace(address, "http://", "https://", 1)

	known := openTarget(t, func(d *Deps) { d.RootCAs = pool })
	known.point("shop", address)
	if o := known.deliver(testRing()); o.Kind != clock.Confirmed {
		t.Errorf("a known authority: %+v", o)
	}
	for other, reason := range map[string]string{authority.URL: "no application protocol", startTLS(t, authority.TLS.Certificates): "does not speak HTTP/2"} {
		known.point("shop", other)
		if o := known.deliver(testRing()); o.Kind != clock.Returned || !strings.Contains(o.Reason, reason) {
			t.Errorf("a server without HTTP/2: %+v", o)
		}
	}
	unknown := openTarget(t, func(d *Deps) { d.RootCAs = x509.NewCertPool() })
	unknown.point("shop", address)
	if o := unknown.deliver(testRing()); o.Kind != clock.Returned || !strings.Contains(o.Reason, "certificate") {
		t.Errorf("an unknown authority: %+v", o)
	}
}

// A call over TLS never goes over a connection in plain text, also if another application has one to the same address.
func TestCallOverTLSUsesNoConnectionInPlainText(t *testing.T) {
	address := startServer(t, func(context.Context, call, *metadata.MD) error { return nil })
	b := openTarget(t)
	for range 3 {
		b.point("shop", address)
		if o := b.deliver(testRing()); o.Kind != clock.Confirmed {
			t.Errorf("in plain text: %+v", o)
		}
		b.point("shop", strings.Replace(address, "http://", "https://", 1))
		if o := b.deliver(testRing()); o.Kind != clock.Returned || !strings.Contains(o.Reason, "TLS") {
			t.Errorf("over TLS: %+v", o)
		}
	}
}

// startTLS starts a server that knows no other protocol than TLS itself, and returns its URL.
func startTLS(t *testing.T, certificates []tls.Certificate) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certificates, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		_ = server.Close()
		serving.Wait()
	})
	return "https://" + l.Addr().String()
}

// No call goes to a host that is not public, unless it is allowed.
func TestGuardChecksCalls(t *testing.T) {
	b := openTarget(t)
	b.point("shop", "http://[::ffff:10.0.0.1]:50051")
	if o := b.deliver(testRing()); o.Kind != clock.Returned || !strings.Contains(o.Reason, "not public") {
		t.Errorf("%+v", o)
	}
}

// FuzzStatus: no trailer makes statusOf panic, and each reason can be stored.
func FuzzStatus(f *testing.F) {
	f.Add("14", "soon %E4%2", "1000")
	f.Add("0", "", "")
	f.Fuzz(func(t *testing.T, code, message, pushback string) {
		s, err := statusOf(http.Header{"Grpc-Status": {code}, "Grpc-Message": {message},
			"Grpc-Retry-Pushback-Ms": {pushback}})
		if err != nil {
			return
		}
		if o := s.outcome(nil, nil); len(o.Reason) > clock.MaxReason || strings.ContainsAny(o.Reason, "\n\x00") ||
			o.RetryAfter < 0 {
			t.Errorf("%+v", o)
		}
	})
}
