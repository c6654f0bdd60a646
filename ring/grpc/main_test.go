package grpc

import (
	"context"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rawCodec gives a server the bytes of messages.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}
func (rawCodec) Name() string { return "raw" }

var _ encoding.Codec = rawCodec{}

// call is one call that a server got.
type call struct {
	method   string
	metadata metadata.MD
	message  []byte
	timeout  time.Duration // until the deadline; 0: the call has none
}

// startServer starts a server of grpc-go, and returns its URL. handle answers all calls, whatever their method.
func startServer(
	t *testing.T, handle func(ctx context.Context, c call, answer *metadata.MD) error, options ...grpc.ServerOption,
) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(append(options, grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, s grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(s)
		c := call{method: method}
		c.metadata, _ = metadata.FromIncomingContext(s.Context())
		if deadline, has := s.Context().Deadline(); has {
			c.timeout = time.Until(deadline)
		}
		if err := s.RecvMsg(&c.message); err != nil {
			return err
		}
		answer := metadata.MD{}
		if err := handle(s.Context(), c, &answer); err != nil {
			return err
		}
		if err := s.SendHeader(answer); err != nil {
			return err
		}
		reply := []byte("thanks")
		return s.SendMsg(&reply)
	}))...)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return "http://" + l.Addr().String()
}

// bench is a Target with its methods.
type bench struct {
	*Target

	t       *testing.T
	mu      sync.Mutex
	methods map[string]*Method
}

// openTarget returns a target that may connect to this host, and that has much patience.
func openTarget(t *testing.T, change ...func(*Deps)) *bench {
	t.Helper()
	b := &bench{t: t, methods: map[string]*Method{}}
	cfg, deps := DefaultConfig(), Deps{Methods: b.method, Own: b.own, Registerer: prometheus.NewRegistry()}
	cfg.Allow = []string{"127.0.0.0/8", "::1"}
	for _, c := range change {
		c(&deps)
	}
	var err error
	if b.Target, err = New(cfg, deps); err != nil {
		t.Fatal(err)
	}
	b.SetPatience(time.Minute, time.Minute) // a slow machine changes no outcome
	t.Cleanup(b.Close)
	return b
}

func (b *bench) method(application string) *Method {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.methods[application]
}

// own returns the method of another application for a ring, as targettest demands.
func (b *bench) own(r *clock.Ring) (*Method, error) {
	if r.Own.Fields == targettest.Withdrawn {
		return nil, targettest.ErrWithdrawn
	}
	return b.method(r.Own.Fields), nil
}

// point gives an application a method.
func (b *bench) point(application, address string, change ...func(*Method)) {
	b.t.Helper()
	m := NewMethod(address, "shop.v1.Alarms/Ring")
	for _, c := range change {
		c(m)
	}
	if err := Part.Validate(m); err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.methods[application] = m
}

// deliver delivers a ring, and returns its outcome.
func (b *bench) deliver(r *clock.Ring) clock.Outcome {
	b.t.Helper()
	limits := ring.Limits{WriteBy: time.Now().Add(20 * time.Second), ReplyBy: time.Now().Add(25 * time.Second)}
	return b.Lane(1).Deliver(b.t.Context(), []clock.Ring{*r}, limits)[0]
}

func testRing() *clock.Ring {
	return &clock.Ring{
		AlarmID: 7, Key: clock.Key{Application: "shop", BusinessID: "order/ä"}, Generation: 3, RingNo: 2,
		RingAt: 1_700_000_000_000,
		RungAt: clock.Instant(time.Now().UnixMilli()), ClaimID: "claim", Payload: []byte{0, 1, 2},
		PayloadKind: clock.Binary,
		ContentType: "application/octet-stream", AckTimeout: time.Minute,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Before:      clock.RingRow{RetryTimes: 4},
	}
}

func TestConformance(t *testing.T) {
	targettest.Run(t,
		targettest.Engine{Open: openConformance, Refused: clock.Nacked, Absent: clock.Unsent, KnowsReceivers: true, Destinations: true})
}

// conformanceBench is a target whose receivers are servers of grpc-go.
type conformanceBench struct {
	*bench
	reply func() // ends the wait of Late receivers
	wait  chan struct{}

	mu       sync.Mutex
	received map[string][]targettest.Received
}

func openConformance(t *testing.T) targettest.Bench {
	t.Helper()
	b := &conformanceBench{bench: openTarget(t), wait: make(chan struct{}),
		received: map[string][]targettest.Received{}}
	b.reply = sync.OnceFunc(func() { close(b.wait) })
	return b
}

func (b *conformanceBench) Target() ring.Target { return b.bench.Target }
func (b *conformanceBench) Reply()              { b.reply() }

func (b *conformanceBench) Receive(application string, how targettest.Behaviour) {
	address := startServer(b.t, func(ctx context.Context, c call, _ *metadata.MD) error {
		if how == targettest.Refusing {
			return grpcstatus.Error(codes.Internal, "no")
		}
		id, _ := url.PathUnescape(c.metadata.Get("X-Clockd-Business-Id")[0])
		b.mu.Lock()
		b.received[application] = append(b.received[application], targettest.Received{
			MessageID: c.metadata.Get(metadataID)[0], BusinessID: id,
			ContentType: c.metadata.Get(metadataContentType)[0], Payload: string(c.message),
		})
		b.mu.Unlock()
		if how == targettest.Late {
			select {
			case <-b.wait:
			case <-ctx.Done():
			}
		}
		return nil
	})
	b.point(application, address, func(m *Method) { m.Concurrency = 64 })
	b.EndpointsChanged()
}

func (b *conformanceBench) Received(application string) []targettest.Received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]targettest.Received(nil), b.received[application]...)
}
