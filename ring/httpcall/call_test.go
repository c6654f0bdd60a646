package httpcall

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// hangingSender makes requests that are written at once and get no reply.
type hangingSender struct {
	fakeSender

	ended   error         // error of each request, which is not written then; nil: it hangs
	dropped chan struct{} // closed by Drop
}

func (s *hangingSender) NewSender() (Sender, error)                   { return s, nil }
func (s *hangingSender) NewExchange(*clock.Ring) (Exchange, error)    { return s, nil }
func (s *hangingSender) Size() int                                    { return 0 }
func (s *hangingSender) Drop()                                        { close(s.dropped) }
func (s *hangingSender) Secrets() []string                            { return nil }
func (s *hangingSender) endpoint(string) (endpoint Endpoint, ok bool) { return s, true }

func (s *hangingSender) Do(c *Call) error {
	if s.ended != nil {
		return s.ended
	}
	c.Write().start()
	c.Write().finish(nil)
	<-c.Context().Done()
	return context.Cause(c.Context())
}

func newTarget(t *testing.T, s *hangingSender) *Target {
	t.Helper()
	target, err := New(DefaultConfig(), Deps{
		Endpoint: s.endpoint, Registerer: prometheus.NewRegistry(),
		Metrics:      MetricNames{Prefix: "test_", Noun: "requests", Label: "class"},
		NewTransport: func() Transport { return &http.Transport{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	return target
}

// The HTTP client gave a request the connection of another one, whose wait ended at that moment. That is no fault of
// the receiver.
func TestRingIsUntakenIfAnotherRequestEndsItsConnection(t *testing.T) {
	target := newTarget(t, &hangingSender{
		fakeSender: fakeSender{address: "shop.example:443", concurrency: 1},
		ended:      fmt.Errorf("round trip: %w", errEnded), dropped: make(chan struct{}),
	})
	limits := ring.Limits{WriteBy: time.Now().Add(time.Minute), ReplyBy: time.Now().Add(time.Minute)}
	got := target.Lane(1).Deliver(t.Context(), []clock.Ring{{Key: clock.Key{Application: "shop"}}}, limits)[0]
	if want := (clock.Outcome{Kind: clock.Untaken, Reason: "the connection ended with the request before"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// A request that waits for its reply forgets its content at the write limit.
func TestWaitingRequestDropsItsContent(t *testing.T) {
	s := &hangingSender{fakeSender: fakeSender{address: "shop.example:443", concurrency: 1},
		dropped: make(chan struct{})}
	target := newTarget(t, s)
	var late ring.LateRings
	limits := ring.Limits{WriteBy: time.Now().Add(100 * time.Millisecond), ReplyBy: time.Now().Add(time.Minute),
		Await: func(l ring.LateRings) { late = l }}
	outcomes := target.Lane(1).Deliver(t.Context(), []clock.Ring{{Key: clock.Key{Application: "shop"}}}, limits)
	if outcomes[0].Kind != clock.Awaited {
		t.Fatalf("got %+v", outcomes[0])
	}
	<-s.dropped
	if late.Outcomes()[0].Kind != clock.Awaited {
		t.Error("the wait for the reply has ended")
	}
	late.End()
}
