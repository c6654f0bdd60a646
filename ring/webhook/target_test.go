package webhook

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// hanging returns a handler that answers only after release was called or the client has left. It counts the requests.
func hanging(t *testing.T, status int) (handle http.HandlerFunc, begun *atomic.Int32, release func()) {
	released := make(chan struct{})
	release = sync.OnceFunc(func() { close(released) })
	t.Cleanup(release)
	begun = new(atomic.Int32)
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // then the server notices that the client leaves
		begun.Add(1)
		select {
		case <-released:
			w.WriteHeader(status)
		case <-r.Context().Done():
		}
	}, begun, release
}

// deliverShared delivers rings as a batch of healthy applications. late is nil if none is awaited.
func (b *bench) deliverShared(all ...clock.Ring) (outcomes []clock.Outcome, late ring.LateRings) {
	b.t.Helper()
	limits := ampleLimits()
	limits.Shared, limits.Await = true, func(l ring.LateRings) { late = l }
	return b.Lane(1).Deliver(b.t.Context(), all, limits), late
}

// A reply that is slow is awaited, and the ring is not sent again. A shared batch does not wait for it, and the next
// one not at all.
func TestSlowReplyIsAwaited(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	b.SetPatience(2*time.Second, time.Minute)
	handle, begun, release := hanging(t, 200)
	b.serve("slow", handle)
	b.serve("quick", func(http.ResponseWriter, *http.Request) {})
	var late []ring.LateRings
	for range 2 {
		outcomes, l := b.deliverShared(append(rings("slow", 2), rings("quick", 30)...)...)
		wantKinds(t, outcomes[:2], clock.Awaited)
		wantKinds(t, outcomes[2:], clock.Confirmed)
		late = append(late, l)
	}
	release()
	for _, l := range late {
		wantKinds(t, awaitAll(t, l), clock.Confirmed)
		if l.Stuck() {
			t.Error("a receiver is never stuck: its timeout ends its request")
		}
	}
	if begun.Load() != 4 {
		t.Errorf("%d requests, want 4", begun.Load())
	}
}

// A ring without a reply within the timeout is in doubt, and counts as a failed try.
func TestMissingReplyIsInDoubtAndCounts(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	handle, begun, _ := hanging(t, 200)
	b.serve("shop", handle, func(e *Endpoint) { e.Timeout = time.Second })
	want := clock.Outcome{Kind: clock.Doubtful, Counted: true,
		Reason: "the request was sent, and there was no reply within 1s"}
	if got := b.deliver(rings("shop", 1)...)[0]; got != want {
		t.Errorf("got %+v", got)
	}
	if begun.Load() != 1 {
		t.Errorf("%d requests", begun.Load())
	}
}

// raw starts a server that reads one request from each connection and then writes what answer returns. answer gets the
// number of the connection.
func (b *bench) raw(application string, answer func(n int, conn net.Conn)) {
	b.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	var server sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	b.t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		server.Wait()
	})
	server.Go(func() {
		for n := 1; ; n++ {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			server.Go(func() {
				defer conn.Close()
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				answer(n, conn)
			})
		}
	})
	b.point(application, "http://"+listener.Addr().String(), func(e *Endpoint) { e.Timeout = 5 * time.Second })
}

func readRequest(conn net.Conn) {
	buffer := make([]byte, 64<<10)
	_, _ = conn.Read(buffer)
}

// A connection that ends in the middle leaves the ring in doubt if a byte of it was sent. An answer that breaks off
// after its head counts.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	ok := "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
	for _, c := range []struct {
		name, answer string
		want         clock.OutcomeKind
	}{
		{"no answer", "", clock.Doubtful},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-", clock.Doubtful},
		{"no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", clock.Doubtful},
		{"an endless status line", strings.Repeat("x", 1<<20), clock.Doubtful},
		{"an endless head", "HTTP/1.1 200 OK\r\n" + strings.Repeat("a: b\r\n", 100_000), clock.Doubtful},
		{"informational responses without end",
			strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 100_000), clock.Doubtful},
		{"some informational responses", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 10) + ok,
			clock.Confirmed},
		{"switching protocols", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nhello",
			clock.Nacked},
		{"a reset in the body of a success", ok, clock.Confirmed},
		{"a reset in the body of a failure", strings.Replace(ok, "200", "500", 1), clock.Nacked},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := openTarget(t)
			b.raw("shop", func(_ int, conn net.Conn) {
				readRequest(conn)
				_, _ = io.WriteString(conn, c.answer)
			})
			got := b.deliver(rings("shop", 1)...)[0]
			if got.Kind != c.want || got.Kind == clock.Doubtful != got.Counted {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A connection that the server closes before it has read anything looks like a connection that the server closes in the
// middle.
func TestRefusedConnectionsCount(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	const nobody = "127.0.0.1:1" // the server of another test could get the port of a closed one
	b.point("shop", "http://"+nobody)
	got := b.deliver(rings("shop", 2)...)
	wantKinds(t, got, clock.Returned)
	if !strings.Contains(got[0].Reason, "cannot connect: dial tcp "+nobody) {
		t.Errorf("got %s", got[0].Reason)
	}
	b.point("shop", "http://does-not-exist.invalid/")
	got = b.deliver(rings("shop", 1)...)
	wantKinds(t, got, clock.Returned)
	if !strings.HasPrefix(got[0].Reason, "cannot connect: cannot resolve does-not-exist.invalid: ") {
		t.Errorf("got %s", got[0].Reason)
	}
}

// A redirect is a failed try, and the place that it names gets no request.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	var hits atomic.Int32
	other := b.serve("other", func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	for _, status := range []int{300, 301, 302, 303, 304, 307, 308} {
		b.serve("shop", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", other.URL)
			w.WriteHeader(status)
		})
		if got := b.deliver(rings("shop", 1)...)[0]; got.Kind != clock.Nacked || got.Final ||
			!strings.Contains(got.Reason, fmt.Sprint(status)) {
			t.Errorf("%d: %+v", status, got)
		}
	}
	if hits.Load() > 0 {
		t.Errorf("%d redirects were followed", hits.Load())
	}
}

// The body of a response is read up to a bound in bytes and in time. The outcome of a success does not wait for it.
func TestResponseBodyIsBounded(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 500} {
		for _, pause := range []time.Duration{0, time.Millisecond} {
			t.Run(fmt.Sprintf("%d, a pause of %s", status, pause), func(t *testing.T) {
				b := openTarget(t)
				sent := make(chan int, 1)
				b.serve("shop", func(w http.ResponseWriter, r *http.Request) {
					w.WriteHeader(status)
					n := 0
					for r.Context().Err() == nil {
						written, err := w.Write([]byte(strings.Repeat("a", 1000)))
						if n += written; err != nil || n > 64<<20 {
							break
						}
						if pause > 0 {
							_ = http.NewResponseController(w).Flush()
							<-time.After(pause)
						}
					}
					sent <- n
				})
				got := b.deliver(rings("shop", 1)...)[0]
				if (got.Kind == clock.Confirmed) != (status == 200) || len(got.Reason) > clock.MaxReason ||
					status == 500 && !strings.HasSuffix(got.Reason, "aaaa") {
					t.Errorf("got %+v", got)
				}
				if n := <-sent; n > 32<<20 { // far more than the buffers between both hold
					t.Errorf("the receiver could send %d bytes", n)
				}
			})
		}
	}
}

// secureServer starts a TLS server, and returns the change of a target that trusts it.
func secureServer(
	t *testing.T, handle http.HandlerFunc, http2 bool, change ...func(*http.Server),
) (*httptest.Server, func(*Config, *Deps)) {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	server.EnableHTTP2 = http2
	server.Config.ErrorLog = nil
	for _, c := range change {
		c(server.Config)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, func(_ *Config, d *Deps) {
		d.RootCAs = x509.NewCertPool()
		d.RootCAs.AddCert(server.Certificate())
	}
}

func TestHTTP2IsUsedWhereTheReceiverHasIt(t *testing.T) {
	t.Parallel()
	for _, version := range []int{1, 2} {
		versions := make(chan int, 1000)
		server, trust := secureServer(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			versions <- r.ProtoMajor
		}, version == 2)
		b := openTarget(t, trust, dialTo(server))
		b.point("shop", "https://example.com/rings") // a name of the server's certificate
		wantKinds(t, b.deliver(rings("shop", 50)...), clock.Confirmed)
		if len(versions) != 50 {
			t.Fatalf("%d requests", len(versions))
		}
		for range 50 {
			if v := <-versions; v != version {
				t.Fatalf("HTTP/%d, want HTTP/%d", v, version)
			}
		}
	}
}

// A certificate of another authority, or for another name, is refused before any byte of the ring is sent.
func TestWrongCertificateIsRefused(t *testing.T) {
	t.Parallel()
	var hits atomic.Int32
	server, trust := secureServer(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) }, true)
	for _, c := range []struct {
		name, url string
		change    []func(*Config, *Deps)
	}{
		{"another name", "https://shop.example", []func(*Config, *Deps){trust, dialTo(server)}},
		{"another authority", "https://example.com", []func(*Config, *Deps){dialTo(server)}},
	} {
		b := openTarget(t, c.change...)
		b.point("shop", c.url)
		got := b.deliver(rings("shop", 1)...)
		wantKinds(t, got, clock.Returned)
		if !strings.Contains(got[0].Reason, "certificate") {
			t.Errorf("%s: %s", c.name, got[0].Reason)
		}
	}
	if hits.Load() > 0 {
		t.Error("a request was sent")
	}
}

// At most Concurrency requests of an application are under way, and at most a quarter of a host's limit.
func TestConcurrencyIsBounded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ concurrency, host, want int32 }{{3, 64, 3}, {100, 20, 5}} {
		b := openTarget(t, func(cfg *Config, _ *Deps) { cfg.HostConcurrency = int(c.host) })
		var now, most, all atomic.Int32
		b.serve("shop", func(http.ResponseWriter, *http.Request) {
			n := now.Add(1)
			defer now.Add(-1)
			all.Add(1)
			for {
				if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			<-time.After(2 * time.Millisecond)
		}, func(e *Endpoint) { e.Concurrency = int(c.concurrency) })
		wantKinds(t, b.deliver(rings("shop", 40)...), clock.Confirmed)
		if most.Load() > c.want || all.Load() != 40 {
			t.Errorf("%d of %d requests at once, want at most %d", most.Load(), all.Load(), c.want)
		}
	}
}

// Rings without a slot are untaken when the patience ends. They never left this process.
func TestRingsWithoutASlotAreUntaken(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	b.SetPatience(time.Second, time.Minute)
	handle, begun, release := hanging(t, 202)
	b.serve("shop", handle, func(e *Endpoint) { e.Concurrency = 4 })
	outcomes, late := b.deliverShared(rings("shop", 10)...)
	wantKinds(t, outcomes[:4], clock.Awaited)
	wantKinds(t, outcomes[4:], clock.Untaken)
	more, none := b.deliverShared(rings("shop", 3)...)
	wantKinds(t, more, clock.Untaken)
	if none != nil {
		t.Error("untaken rings are awaited")
	}
	release()
	wantKinds(t, awaitAll(t, late)[:4], clock.Confirmed)
	if begun.Load() != 4 {
		t.Errorf("%d requests", begun.Load())
	}
	b.SetPatience(time.Minute, time.Minute)
	wantKinds(t, b.deliver(rings("shop", 10)...), clock.Confirmed)
}

// After the write limit no request begins.
func TestNoRequestBeginsAfterTheWriteLimit(t *testing.T) {
	t.Parallel()
	b, got := openTarget(t), &recorder{}
	b.serve("shop", got.ServeHTTP)
	past := ring.Limits{WriteBy: time.Now().Add(-time.Millisecond), ReplyBy: time.Now().Add(time.Second)}
	wantKinds(t, b.deliverWith(past, rings("shop", 3)...), clock.Untaken)
	suspended := ampleLimits()
	suspended.Suspended = func() time.Duration { return time.Hour }
	wantKinds(t, b.deliverWith(suspended, rings("shop", 3)...), clock.Untaken)
	if len(got.seen) > 0 {
		t.Errorf("%d requests", len(got.seen))
	}
}

// A process that was stopped after the begin of a request writes no byte of it later.
func TestStoppedProcessWritesNothingLate(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		var hits atomic.Int32
		handle := func(http.ResponseWriter, *http.Request) { hits.Add(1) }
		var server *httptest.Server
		address, trust := "http://example.com", func(*Config, *Deps) {}
		if secure {
			server, trust = secureServer(t, handle, true)
			address = "https://example.com"
		} else {
			server = httptest.NewServer(http.HandlerFunc(handle))
			t.Cleanup(server.Close)
		}
		var stopped atomic.Bool
		b := openTarget(t, trust, dialTo(server), func(_ *Config, d *Deps) {
			dial := d.Dial
			d.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				defer stopped.Store(true) // the time limit passes while the connection is made
				return dial(ctx, network, address)
			}
		})
		b.point("shop", address)
		limits := ampleLimits()
		limits.Suspended = func() time.Duration {
			if stopped.Load() {
				return time.Hour
			}
			return 0
		}
		wantKinds(t, b.deliverWith(limits, rings("shop", 1)...), clock.Untaken)
		if hits.Load() != 0 {
			t.Errorf("TLS %t: a request was sent after the limit", secure)
		}
	}
}

// A receiver that does not read a large request leaves the ring in doubt at the write limit. Later requests of its
// connection do not fail.
func TestUnreadRequestEndsAtTheWriteLimit(t *testing.T) {
	t.Parallel()
	large := rings("shop", 1)[0]
	large.Payload = make([]byte, 30<<20)
	limits := func() ring.Limits {
		return ring.Limits{WriteBy: time.Now().Add(3 * time.Second), ReplyBy: time.Now().Add(10 * time.Second)}
	}
	t.Run("HTTP/1", func(t *testing.T) {
		b := openTarget(t)
		stop := make(chan struct{})
		b.raw("shop", func(_ int, conn net.Conn) {
			readRequest(conn)
			<-stop
		})
		t.Cleanup(func() { close(stop) })
		got := b.deliverWith(limits(), large)[0]
		if got.Kind != clock.Doubtful || !got.Counted || !strings.Contains(got.Reason, "whole request in time") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		server, trust := secureServer(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > 1<<20 {
				<-r.Context().Done()
			}
		}, true)
		b := openTarget(t, trust, dialTo(server))
		b.point("shop", "https://example.com")
		got := b.deliverWith(limits(), append([]clock.Ring{large}, rings("shop", 5)...)...)
		if got[0].Kind != clock.Doubtful || !got[0].Counted {
			t.Errorf("got %+v", got[0])
		}
		wantKinds(t, got[1:], clock.Confirmed)
	})
}

// A receiver that stops to read the connection of HTTP/2, and reads again after the write limit, does not get the rest
// of the ring. Later rings go over another connection.
func TestBlockedWriteEndsAtTheWriteLimit(t *testing.T) {
	t.Parallel()
	whole := make(chan struct{}, 10)
	server, trust := secureServer(t, func(_ http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil && n > 1000 {
			whole <- struct{}{}
		}
	}, true)
	dialed, ended := make(chan *gatedConn, 10), make(chan struct{})
	b := openTarget(t, trust, func(_ *Config, d *Deps) {
		d.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			there, err := (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
			if err != nil {
				return nil, err
			}
			here, proxied := tcpPair(t)
			gate := &gatedConn{Conn: proxied, open: make(chan struct{})}
			dialed <- gate
			go func() {
				defer close(ended)
				_, _ = io.Copy(there, gate) // ends with the connection
				_ = there.Close()
			}()
			go func() { _, _ = io.Copy(proxied, there) }() // ends with the server's end
			return here, nil
		}
	})
	b.point("shop", "https://example.com")
	wantKinds(t, b.deliver(rings("shop", 1)...), clock.Confirmed)
	gate := <-dialed
	gate.shut.Store(true)
	large := rings("shop", 1)[0]
	large.Payload = make([]byte, 900<<10) // within the window of the stream
	limits := ring.Limits{WriteBy: time.Now().Add(time.Second), ReplyBy: time.Now().Add(20 * time.Second)}
	if got := b.deliverWith(limits, large)[0]; got.Kind != clock.Doubtful || !got.Counted {
		t.Errorf("got %+v", got)
	}
	<-time.After(time.Until(limits.WriteBy) + 50*time.Millisecond)
	close(gate.open)
	select {
	case <-whole:
		t.Error("the receiver got the whole ring after the limit")
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the connection does not end")
	}
}

// gatedConn is a connection whose reads wait while it is shut.
type gatedConn struct {
	net.Conn

	shut atomic.Bool
	open chan struct{} // closed when reads go on
}

func (c *gatedConn) Read(p []byte) (int, error) {
	if c.shut.Load() {
		<-c.open
	}
	return c.Conn.Read(p)
}

// tcpPair returns both ends of a connection with small buffers.
func tcpPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	_ = client.(*net.TCPConn).SetWriteBuffer(16 << 10)
	_ = server.(*net.TCPConn).SetReadBuffer(16 << 10)
	return client, server
}

// A host that does not finish the handshake makes the first tries untaken: they had no time. Once its connections have
// failed, each try counts.
func TestSilentHostCountsWhenItsConnectionsFail(t *testing.T) {
	t.Parallel()
	b := openTarget(t, func(c *Config, _ *Deps) { c.ConnectTimeout = 4 * time.Second })
	b.raw("shop", func(_ int, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	e := b.endpoints.get("shop")
	b.point("shop", strings.Replace(e.URL, "http:", "https:", 1))
	limits := func() ring.Limits {
		return ring.Limits{WriteBy: time.Now().Add(100 * time.Millisecond), ReplyBy: time.Now().Add(10 * time.Second)}
	}
	wantKinds(t, b.deliverWith(limits(), rings("shop", 1)...), clock.Untaken)
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		got := b.deliverWith(limits(), rings("shop", 1)...)[0]
		if got.Kind == clock.Returned {
			if got.Reason != "cannot connect: timeout" {
				t.Errorf("got %s", got.Reason)
			}
			return
		}
		if got.Kind != clock.Untaken {
			t.Fatalf("got %+v", got)
		}
	}
	t.Error("the tries never count")
}

// The end of the wait ends the requests, and leaves their rings in doubt, uncounted. Replies that have come until then
// count.
func TestEndOfTheWaitEndsTheRequests(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	b.serve("shop", func(_ http.ResponseWriter, r *http.Request) { // the server ends only when the client has left
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	b.serve("quick", func(http.ResponseWriter, *http.Request) {})
	b.SetPatience(2*time.Second, time.Minute)
	_, late := b.deliverShared(append(rings("shop", 3), rings("quick", 2)...)...)
	late.End()
	wantKinds(t, late.Outcomes()[3:], clock.Confirmed)
	for _, o := range late.Outcomes()[:3] {
		if o.Kind != clock.Doubtful || o.Counted {
			t.Errorf("got %+v", o)
		}
	}
	late.End()
	wantKinds(t, late.Outcomes()[3:], clock.Confirmed)
}

// Without Await the delivery waits until the reply limit. When its context ends, it returns at once.
func TestDeliveryThatMayNotAwaitEnds(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hang, _, _ := hanging(t, 200)
	var arrived atomic.Int32
	b.serve("shop", func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == 4 { // the last request of the second delivery
			cancel()
		}
		hang(w, r)
	})
	limits := ring.Limits{WriteBy: time.Now().Add(3 * time.Second), ReplyBy: time.Now().Add(3 * time.Second)}
	wantKinds(t, b.Lane(1).Deliver(t.Context(), rings("shop", 2), limits), clock.Doubtful)
	if time.Now().Before(limits.ReplyBy) {
		t.Error("the delivery did not wait for its replies")
	}
	limits = ampleLimits()
	limits.Await = func(ring.LateRings) { t.Error("rings are awaited after the caller has left") }
	wantKinds(t, b.Lane(1).Deliver(ctx, rings("shop", 2), limits), clock.Doubtful)
}

// Connections are kept, after successes and failures.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	var opened atomic.Int32
	status := 200
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(strings.Repeat("text ", 10_000)))
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	b.point("shop", server.URL)
	for i := range 10 {
		status = []int{200, 500}[i%2]
		b.deliver(rings("shop", 1)...)
		b.waitForSlots()
	}
	if opened.Load() != 1 {
		t.Errorf("%d connections for 10 requests", opened.Load())
	}
}

// waitForSlots waits until no request is under way.
func (b *bench) waitForSlots() {
	for b.UnderWay() > 0 {
		<-time.After(time.Millisecond)
	}
}

func TestApplicationWithoutAnEndpointIsNotAccepted(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	if b.Accepts("shop") == nil {
		t.Error("an application without an endpoint is accepted")
	}
	wantKinds(t, b.deliver(rings("shop", 2)...), clock.Unsent)
	b.serve("shop", func(http.ResponseWriter, *http.Request) {})
	b.EndpointsChanged()
	select {
	case <-b.Changed():
	default:
		t.Error("no signal")
	}
	if b.Accepts("shop") != nil || b.Usable() != nil {
		t.Error("an application with an endpoint is not accepted")
	}
	e := NewEndpoint("ftp://shop", newSecret)
	b.endpoints.set("shop", e)
	wantKinds(t, b.deliver(rings("shop", 2)...), clock.Returned)
	b.Close()
	if b.Usable() == nil {
		t.Error("a closed target is usable")
	}
}

// A changed endpoint takes effect with the next ring.
func TestChangedEndpointIsUsed(t *testing.T) {
	t.Parallel()
	b, first, second := openTarget(t), &recorder{}, &recorder{}
	b.serve("shop", first.ServeHTTP)
	wantKinds(t, b.deliver(rings("shop", 1)...), clock.Confirmed)
	b.serve("shop", second.ServeHTTP)
	wantKinds(t, b.deliver(rings("shop", 1)...), clock.Confirmed)
	first.take(t)
	second.take(t)
}

// A receiver that asks to wait gets no further request. The application is accepted again, with a signal, when the wait
// is over.
func TestRetryAfterHoldsTheApplication(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	var hits atomic.Int32
	b.serve("shop", func(w http.ResponseWriter, _ *http.Request) {
		hits.Add(1)
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(429)
	}, func(e *Endpoint) { e.Concurrency = 1 })
	b.serve("other", func(http.ResponseWriter, *http.Request) {})
	got := b.deliver(append(rings("shop", 5), rings("other", 5)...)...)
	if counts := count(got[:5]); counts[clock.Nacked] != 1 || counts[clock.Unsent] != 4 ||
		got[0].RetryAfter != time.Second {
		t.Errorf("%v, first %+v", counts, got[0])
	}
	wantKinds(t, got[5:], clock.Confirmed)
	if b.Accepts("shop") == nil || b.Accepts("other") != nil {
		t.Error("the application that should wait is accepted, or the other one is not")
	}
	<-b.Changed()
	if b.Accepts("shop") != nil {
		t.Error("the application is not accepted after its wait")
	}
	if hits.Load() != 1 {
		t.Errorf("%d requests", hits.Load())
	}
}

// Close ends the requests under way.
func TestCloseEndsTheRequests(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	handle, begun, _ := hanging(t, 200)
	b.serve("shop", handle)
	b.SetPatience(100*time.Millisecond, time.Minute)
	_, late := b.deliverShared(rings("shop", 3)...)
	for begun.Load() < 3 {
		<-time.After(time.Millisecond)
	}
	b.Close()
	for _, o := range late.Outcomes() {
		if o.Kind != clock.Doubtful || o.Counted {
			t.Errorf("got %+v", o)
		}
	}
	wantKinds(t, b.deliver(rings("shop", 1)...), clock.Unsent)
}

// A request whose content is forgotten is not repeated.
func TestRequestWithoutItsContentIsNotRepeated(t *testing.T) {
	t.Parallel()
	s := newSender(NewEndpoint("https://shop.example", newSecret), "test")
	req, body, err := s.request(&rings("shop", 1)[0])
	if err != nil {
		t.Fatal(err)
	}
	body.Drop()
	if _, err := req.GetBody(); err == nil {
		t.Error("the request may be repeated")
	}
}

func TestWrongConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(c *Config){
		func(c *Config) { c.InFlight = 1 },
		func(c *Config) { c.HostConcurrency = 1 },
		func(c *Config) { c.HostConcurrency = c.InFlight + 1 },
		func(c *Config) { c.ConnectTimeout = 0 },
		func(c *Config) { c.UserAgent = "a\nb" },
		func(c *Config) { c.Allow = []string{"10.0.0.0/8", "10.0.0.1/8"} },
	} {
		c := DefaultConfig()
		change(&c)
		if _, err := New(c, Deps{}); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
