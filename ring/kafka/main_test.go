package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/kafka/kafkatest"
	"github.com/clockd/clockd/ring/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a Target with a cluster.
type bench struct {
	*Target

	t       *testing.T
	cluster *kafkatest.Cluster
	prefix  string // of the topics that the bench creates

	mu     sync.Mutex
	topics map[string]*Topic
	hangs  string        // address of a broker that takes connections and does not reply; "": none
	silent string        // address to connect to instead
	conns  []*heldConn   // all connections
	held   chan struct{} // open while the replies to produce requests are held; nil: they are not
}

// openTarget returns a target with the cluster of the tests, Apache Kafka where there is one.
func openTarget(t *testing.T) *bench {
	t.Helper()
	return openOn(t, kafkatest.Open(t), DefaultConfig())
}

// openFake returns a target with a fake cluster, whose replies the test decides.
func openFake(t *testing.T) *bench {
	t.Helper()
	return openOn(t, kafkatest.OpenFake(t), DefaultConfig())
}

// openOn returns a target with this cluster.
func openOn(t *testing.T, cluster *kafkatest.Cluster, cfg Config) *bench {
	t.Helper()
	b := &bench{t: t, cluster: cluster, prefix: kafkatest.Unique("rings") + ".", topics: map[string]*Topic{}}
	if len(cfg.Brokers) == 0 {
		cfg.Brokers = cluster.Brokers
	}
	cfg.ProbeInterval = 200 * time.Millisecond
	var err error
	b.Target, err = New(cfg, Deps{Topics: b.topic, Own: b.own, Log: slog.New(slog.DiscardHandler), Dial: b.dial})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		b.release()
		cancel()
		running.Wait()
	})
	return b
}

func (b *bench) topic(application string) *Topic {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.topics[application]
}

// own returns the topic of another application for a ring, as targettest demands.
func (b *bench) own(r *clock.Ring) (*Topic, error) {
	if r.Own.Fields == targettest.Withdrawn {
		return nil, targettest.ErrWithdrawn
	}
	return b.topic(r.Own.Fields), nil
}

// create makes a topic of three partitions for the application.
func (b *bench) create(application string, configs map[string]string) {
	b.t.Helper()
	b.cluster.Create(b.prefix+application, configs)
	b.point(application, NewTopic(b.prefix+application))
}

// point gives an application a topic.
func (b *bench) point(application string, k *Topic) {
	b.mu.Lock()
	b.topics[application] = k
	b.mu.Unlock()
	b.TopicsChanged()
}

// hold keeps the replies to produce requests back, until release.
func (b *bench) hold() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = make(chan struct{})
	}
}

func (b *bench) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held != nil {
		close(b.held)
		b.held = nil
	}
}

// cut closes all connections to which a produce request was written.
func (b *bench) cut() {
	b.mu.Lock()
	conns := b.conns
	b.mu.Unlock()
	for _, c := range conns {
		if c.mu.Lock(); c.produced {
			_ = c.Close()
		}
		c.mu.Unlock()
	}
}

// hang lets the broker of this address hang from now on, as a process that is stopped.
func (b *bench) hang(address string) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections and bytes
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = silent.Close() })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hangs, b.silent = address, silent.Addr().String()
	for _, c := range b.conns {
		_ = c.Close()
	}
}

func (b *bench) dial(ctx context.Context, network, address string) (net.Conn, error) {
	b.mu.Lock()
	if address == b.hangs {
		address = b.silent
	}
	b.mu.Unlock()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &heldConn{Conn: conn, bench: b, closed: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.conns = append(b.conns, c)
	return c, nil
}

// heldConn is a connection that keeps what it reads back while the bench holds replies, once a produce request was
// written to it.
type heldConn struct {
	net.Conn

	bench    *bench
	produced bool
	mu       sync.Mutex
	once     sync.Once
	closed   chan struct{}
}

func (c *heldConn) Write(p []byte) (int, error) {
	if isProduce(p) {
		c.mu.Lock()
		c.produced = true
		c.mu.Unlock()
	}
	return c.Conn.Write(p)
}

func (c *heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	produced := c.produced
	c.mu.Unlock()
	c.bench.mu.Lock()
	held := c.bench.held
	c.bench.mu.Unlock()
	if produced && held != nil {
		select {
		case <-held:
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	return n, err
}

func (c *heldConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// records returns the records that the application's topic has.
func (b *bench) records(application string) []*kgo.Record {
	b.t.Helper()
	return b.cluster.Records(b.prefix + application)
}

// open returns an open lane.
func (b *bench) open() ring.Lane {
	b.t.Helper()
	b.cluster.Eventually("the target is usable", func() bool { return b.Usable() == nil })
	l := b.Lane(4)
	if err := l.Open(b.t.Context(), 100); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = l.Close() })
	return l
}

func rings(application string, n int) []clock.Ring {
	all := make([]clock.Ring, n)
	for i := range all {
		all[i] = clock.Ring{
			AlarmID: int64(i + 1), Key: clock.Key{Application: application, BusinessID: fmt.Sprint("b", i)},
			Generation: 4, RingNo: 2,
			RingAt: 1_700_000_000_000, RungAt: 1_700_000_000_007, ClaimID: "claim", Payload: []byte(`{"n":1}`),
			PayloadKind: clock.JSON, ContentType: "application/json",
		}
	}
	return all
}

func ample() ring.Limits {
	return ring.Limits{WriteBy: time.Now().Add(20 * time.Second), ReplyBy: time.Now().Add(25 * time.Second)}
}

func wantKinds(t *testing.T, outcomes []clock.Outcome, want clock.OutcomeKind) {
	t.Helper()
	for i, o := range outcomes {
		if o.Kind != want {
			t.Fatalf("ring %d is %s (%s), want %s", i, o.Kind, o.Reason, want)
		}
	}
}
