package ring_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/httpcall"
	"github.com/clockd/clockd/ring/webhook"
)

const hookSecret webhook.Secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

// hookNode is a node whose applications have webhooks. The receivers are a real HTTP server, on connections in memory.
type hookNode struct {
	*node
	server    *http.Server
	listener  *pipeListener
	endpoints map[string]*webhook.Endpoint

	mu       sync.Mutex
	answers  map[string]http.HandlerFunc // by application; missing: 204
	dials    map[string]func(ctx context.Context) error
	requests []hookRequest
}

// hookRequest is a request that a receiver got.
type hookRequest struct {
	application, id string
	at              clock.Instant
}

// pipeListener accepts one end of each pipe that is dialled.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// withWebhooks runs a test in a bubble.
func withWebhooks(t *testing.T, test func(t *testing.T, n *hookNode)) {
	t.Helper()
	h := &hookNode{
		endpoints: map[string]*webhook.Endpoint{}, answers: map[string]http.HandlerFunc{},
		dials: map[string]func(context.Context) error{},
	}
	cfg := defaultNode()
	cfg.webhooks = h.newTarget
	inBubble(t, cfg, func(t *testing.T, n *node) {
		h.node = n
		h.listener = &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
		h.server = &http.Server{Handler: h} //nolint:gosec // connections in memory
		go func() { _ = h.server.Serve(h.listener) }()
		defer func() {
			n.stop()
			n.hooks.Close()
			_ = h.server.Close()
			synctest.Wait()
		}()
		test(t, h)
	})
}

func (n *hookNode) newTarget() *webhook.Target {
	target, err := webhook.New(webhook.DefaultConfig(), webhook.Deps{
		Registerer: prometheus.NewRegistry(),
		Endpoints: func(application string) *webhook.Endpoint {
			n.mu.Lock()
			defer n.mu.Unlock()
			e := n.endpoints[application]
			if e == nil {
				e = webhook.NewEndpoint("http://"+application+".example/", hookSecret)
				n.endpoints[application] = e
			}
			return e
		},
		Dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			application, _, _ := strings.Cut(address, ".")
			n.mu.Lock()
			dial := n.dials[application]
			n.mu.Unlock()
			if dial != nil {
				if err := dial(ctx); err != nil {
					return nil, err
				}
			}
			return n.listener.dial(ctx)
		},
	})
	if err != nil {
		panic(err)
	}
	return target
}

// ServeHTTP is the receiver of all applications.
func (n *hookNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	application := r.Header.Get("X-Clockd-Application")
	n.mu.Lock()
	n.requests = append(n.requests, hookRequest{application, r.Header.Get("Webhook-Id"), n.clock.now()})
	answer := n.answers[application]
	n.mu.Unlock()
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, r)
}

// answer makes the application's receiver answer with a status after some time.
func (n *hookNode) answer(application string, status int, after time.Duration, header ...string) {
	n.answerWith(application, func(w http.ResponseWriter, r *http.Request) {
		if after > 0 { // a receive from an expired timer can crash the race detector in a bubble: go.dev/issue/78156
			select {
			case <-time.After(after):
			case <-r.Context().Done():
				return
			}
		}
		if len(header) > 0 {
			w.Header().Set(header[0], header[1])
		}
		w.WriteHeader(status)
	})
}

func (n *hookNode) answerWith(application string, answer http.HandlerFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answers[application] = answer
}

// connect sets what happens before each connection to the application's receiver.
func (n *hookNode) connect(application string, dial func(ctx context.Context) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials[application] = dial
}

// endpoint changes the application's endpoint.
func (n *hookNode) endpoint(application string, change func(e *webhook.Endpoint)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e := webhook.NewEndpoint("http://"+application+".example/", hookSecret)
	change(e)
	n.endpoints[application] = e
}

// got returns the requests of an application, and the times of each message id.
func (n *hookNode) got(application string) (all []hookRequest, byID map[string][]clock.Instant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	byID = map[string][]clock.Instant{}
	for _, r := range n.requests {
		if r.application == application {
			all = append(all, r)
			byID[r.id] = append(byID[r.id], r.at)
		}
	}
	return all, byID
}

// wantOnce checks that each alarm has rung, and that its receiver got one request, not early and at most late.
func (n *hookNode) wantOnce(application string, ids []int64, late time.Duration) {
	n.t.Helper()
	_, byID := n.got(application)
	for _, id := range ids {
		a := n.db.get(id)
		at := byID[fmt.Sprint(id, ".1.1")]
		if len(at) != 1 || a.State != clock.Rung || a.InDoubt {
			n.t.Fatalf("alarm %d (%s) is %s, in doubt %t, and its receiver got %d requests", id, a.Key, a.State,
				a.InDoubt, len(at))
		}
		if by := at[0].Sub(a.RingAt); by < 0 || by > late {
			n.t.Fatalf("alarm %d (%s) was sent %s late", id, a.Key, by)
		}
	}
	if len(byID) != len(ids) {
		n.t.Errorf("%s got %d rings, want %d", application, len(byID), len(ids))
	}
}

// wantRung checks that each alarm has rung, and that all requests of it had one message id.
func (n *hookNode) wantRung(application string, ids []int64) {
	n.t.Helper()
	_, byID := n.got(application)
	for _, id := range ids {
		if a := n.db.get(id); a.State != clock.Rung || len(byID[fmt.Sprint(id, ".1.1")]) == 0 {
			n.t.Fatalf("alarm %d (%s) is %s, last error %q", id, a.Key, a.State, a.LastError)
		}
	}
	if len(byID) != len(ids) {
		n.t.Errorf("%s got rings with %d message ids, want %d", application, len(byID), len(ids))
	}
}

func TestReplyOfAWebhookDecidesTheState(t *testing.T) {
	withWebhooks(t, func(t *testing.T, n *hookNode) {
		acknowledged := func(s *clock.Set) { s.AckTimeout, s.MaxRings = time.Hour, 3 }
		limited := func(s *clock.Set) {
			s.Retry = clock.RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Second, Limit: 2}
		}
		n.answer("accepted", 202, 0)
		n.answer("gone", 410, 0)
		n.answer("failing", 500, 0)
		for i, c := range []struct {
			application string
			change      func(*clock.Set)
			want        clock.State
			requests    int
			lastError   string
		}{
			{"well", changeContent, clock.Rung, 1, ""},
			{"well", acknowledged, clock.Rung, 1, ""},
			{"accepted", changeContent, clock.Rung, 1, ""},
			{"accepted", acknowledged, clock.Ringing, 1, ""},
			{"gone", changeContent, clock.Dead, 1, "410 Gone"},
			{"gone", acknowledged, clock.Dead, 1, "410 Gone"},
			{"gone", atMostOnce, clock.Dead, 1, "410 Gone"},
			{"failing", limited, clock.Dead, 3, "500 Internal Server Error"},
			{"failing", atMostOnce, clock.Rung, 1, "500 Internal Server Error"},
		} {
			n.mu.Lock()
			n.requests = nil
			n.mu.Unlock()
			id := n.set(c.application, fmt.Sprint("id", i), n.clock.now().Sub(n.origin), c.change)
			time.Sleep(20 * time.Second)
			a := n.db.get(id)
			if all, _ := n.got(c.application); a.State != c.want || len(all) != c.requests ||
				!strings.Contains(a.LastError, c.lastError) {
				t.Errorf("%s: %s after %d requests, last error %q; want %s after %d, %q", c.application, a.State,
					len(all), a.LastError, c.want, c.requests, c.lastError)
			}
		}
	})
}

// Replies that take long are awaited. The rings are not sent again, however long the replies take within the timeout.
func TestSlowWebhookIsNotCalledAgain(t *testing.T) {
	withWebhooks(t, func(_ *testing.T, n *hookNode) {
		ids := map[string][]int64{}
		for i, after := range []time.Duration{100 * time.Millisecond, time.Second, 4 * time.Second, 20 * time.Second, 100 * time.Second} {
			application := fmt.Sprint("slow", i)
			n.endpoint(application, func(e *webhook.Endpoint) { e.Timeout = 2 * time.Minute })
			n.answer(application, 200, after)
			ids[application] = n.setMany(application, 5, time.Second)
		}
		time.Sleep(3 * time.Minute)
		for application := range ids {
			n.wantOnce(application, ids[application], time.Millisecond)
		}
	})
}

// A receiver that replies more slowly than alarms are due always has almost as many requests as it may have.
func TestBusyWebhookIsKeptBusy(t *testing.T) {
	const (
		count = 5000
		reply = 10 * time.Millisecond
		least = count / httpcall.DefaultConcurrency * reply // with all requests under way that it may have
	)
	withWebhooks(t, func(t *testing.T, n *hookNode) {
		n.answer("shop", http.StatusNoContent, reply)
		n.db.slow(20 * time.Millisecond)
		ids := n.setMany("shop", count, time.Second)
		time.Sleep(time.Second + 2*least)
		n.wantOnce("shop", ids, least*5/4)
		if n.quarantined() != 0 {
			t.Error("the application is still in quarantine")
		}
	})
}

// A receiver without a reply uses up the retries of its alarm, with one message id. When it is well again, its other
// alarms ring.
func TestHangingWebhookIsTriedAgainAfterItsTimeout(t *testing.T) {
	withWebhooks(t, func(t *testing.T, n *hookNode) {
		n.endpoint("shop", func(e *webhook.Endpoint) { e.Timeout = 2 * time.Second })
		n.answer("shop", 200, time.Hour)
		limited := n.set("shop", "limited", time.Second, func(s *clock.Set) { s.Retry.Limit = 2 })
		patient := n.set("shop", "patient", time.Second)
		time.Sleep(time.Minute)
		if a := n.db.get(limited); a.State != clock.Dead || !a.InDoubt || a.RetryTimes != 3 ||
			!strings.Contains(a.LastError, "no reply within 2s") {
			t.Errorf("the limited alarm is %s, in doubt %t, after %d failed tries: %s", a.State, a.InDoubt,
				a.RetryTimes, a.LastError)
		}
		_, byID := n.got("shop")
		if tries := byID[fmt.Sprint(limited, ".1.1")]; len(tries) != 3 ||
			tries[1].Sub(tries[0]) < 2500*time.Millisecond {
			t.Errorf("tries of the limited alarm: %v", tries)
		}
		n.answer("shop", 200, 0)
		time.Sleep(time.Minute)
		if a := n.db.get(patient); a.State != clock.Rung || a.InDoubt {
			t.Errorf("the patient alarm is %s, in doubt %t", a.State, a.InDoubt)
		}
	})
}

// A receiver that answers 429 gets no request of any alarm until Retry-After has passed. Nothing but the tries until
// then counts.
func TestRetryAfterOfAWebhookIsObeyed(t *testing.T) {
	withWebhooks(t, func(t *testing.T, n *hookNode) {
		n.endpoint("shop", func(e *webhook.Endpoint) { e.Concurrency = 1 })
		n.answer("shop", 429, 0, "Retry-After", "40")
		ids := n.setMany("shop", 100, time.Second)
		later := n.setEvery("shop-later", 1, time.Second) // another application is not held
		time.Sleep(10 * time.Second)
		all, _ := n.got("shop")
		if len(all) != 1 {
			t.Errorf("%d requests before Retry-After has passed", len(all))
		}
		n.wantOnce("shop-later", later, time.Millisecond)
		n.answer("shop", 200, 0)
		time.Sleep(50 * time.Second)
		n.wantRung("shop", ids)
		counted := 0
		for _, id := range ids {
			counted += n.db.get(id).RetryTimes
		}
		if again, _ := n.got("shop"); counted != 1 || again[1].at.Sub(all[0].at) < 40*time.Second || len(again) != 101 {
			t.Errorf("%d counted tries, %d requests, the second one %s after the first", counted, len(again),
				again[1].at.Sub(all[0].at))
		}
	})
}

func TestBrokenWebhooksDelayNoOtherApplication(t *testing.T) {
	testBrokenWebhooks(t, 8)
}

// testBrokenWebhooks: the receivers of so many applications are down, silent, failing or slow, and have a backlog. The
// alarms of another application wait at most for the patience that the first batches have with unknown receivers (250
// ms), and the broken receivers get few requests. When all receivers are well again, all alarms ring.
func testBrokenWebhooks(t *testing.T, applications int) {
	t.Helper()
	refused := func(context.Context) error { return errors.New("connection refused") }
	silent := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, c := range []struct {
		name    string
		breakIt func(n *hookNode, application string)
		most    int // requests to one application in a minute
	}{
		{"down", func(n *hookNode, a string) { n.connect(a, refused) }, 0},
		{"without an answer to connections", func(n *hookNode, a string) { n.connect(a, silent) }, 0},
		{"hanging", func(n *hookNode, a string) { n.answer(a, 200, time.Hour) }, 120},
		{"failing", func(n *hookNode, a string) { n.answer(a, 500, 0) }, 400},
		{"slow", func(n *hookNode, a string) { n.answer(a, 200, 3*time.Second) }, 50},
		{"resetting", func(n *hookNode, a string) {
			n.answerWith(a, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			withWebhooks(t, func(t *testing.T, n *hookNode) {
				backlog := map[string][]int64{}
				for i := range applications {
					broken := fmt.Sprint("broken", i)
					c.breakIt(n, broken)
					backlog[broken] = n.setMany(broken, 50, time.Second)
				}
				ids := n.setEvery("well", 600, 100*time.Millisecond)
				time.Sleep(61 * time.Second)
				n.wantOnce("well", ids, 300*time.Millisecond)
				for _, broken := range slices.Sorted(maps.Keys(backlog)) {
					if all, _ := n.got(broken); len(all) > c.most {
						t.Errorf("%s got %d requests in a minute, want at most %d", broken, len(all), c.most)
						break
					}
				}
				for broken := range backlog {
					n.connect(broken, nil)
					n.answer(broken, 200, 0)
				}
				time.Sleep(2 * time.Minute)
				for broken, ids := range backlog {
					n.wantRung(broken, ids)
				}
			})
		})
	}
}

// A node stops while replies are late. The next node sends these rings again, under the same message ids.
func TestStopWhileAWebhookRepliesKeepsTheMessageIDs(t *testing.T) {
	withWebhooks(t, func(_ *testing.T, n *hookNode) {
		n.answer("shop", 200, 20*time.Second)
		ids := n.setMany("shop", 10, time.Second)
		time.Sleep(3 * time.Second)
		n.node.stop()
		n.hooks.Close()
		cfg := defaultNode()
		cfg.webhooks = n.newTarget
		n.answer("shop", 200, 0)
		n.build(cfg)
		n.start()
		time.Sleep(30 * time.Second)
		n.wantRung("shop", ids)
	})
}
