package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a Target with a cluster of its own. The cluster is kfake, the fake cluster of franz-go: no real broker can
// be installed for the tests. It speaks the protocol over TCP, checks batches, checksums and sequences, and keeps
// records in memory. It has no replicas.
type bench struct {
	*Target

	t       *testing.T
	cluster *kfake.Cluster

	mu     sync.Mutex
	topics map[string]*Topic
	conns  []*heldConn   // all connections
	held   chan struct{} // open while the replies to produce requests are held; nil: they are not
}

// openTarget returns a usable target.
func openTarget(t *testing.T, cfg Config, opts ...kfake.Opt) *bench {
	t.Helper()
	cluster, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := &bench{t: t, cluster: cluster, topics: map[string]*Topic{}}
	if cfg.Brokers = cluster.ListenAddrs(); cfg.AckTimeout == 0 {
		cfg.AckTimeout = 20 * time.Second
	}
	cfg.ProbeInterval = 200 * time.Millisecond
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
	if b.cluster.TopicInfo("rings."+application) == nil {
		if err := b.cluster.CreateTopic("rings."+application, 3, configs); err != nil {
			b.t.Fatal(err)
		}
	}
	b.point(application, NewTopic("rings."+application))
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

func (b *bench) dial(ctx context.Context, network, address string) (net.Conn, error) {
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

// records reads all records of a topic.
func (b *bench) records(topic string) (all []*kgo.Record) {
	b.t.Helper()
	infos := b.cluster.PartitionInfos(topic)
	var want int64
	for _, p := range infos {
		want += p.HighWatermark
	}
	if want == 0 {
		return nil
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ConsumeTopics(topic),
		kgo.FetchMaxWait(50*time.Millisecond))
	if err != nil {
		b.t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(b.t.Context(), 20*time.Second)
	defer cancel()
	for int64(len(all)) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			b.t.Fatalf("%d of %d records: %v", len(all), want, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// header returns the value of a record's header, "" if it has none.
func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// open returns an open lane.
func (b *bench) open() ring.Lane {
	b.t.Helper()
	b.eventually("the target is usable", func() bool { return b.Usable() == nil })
	l := b.Lane(4)
	if err := l.Open(b.t.Context(), 100); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = l.Close() })
	return l
}

func (b *bench) eventually(what string, holds func() bool) {
	b.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.t.Fatalf("never: %s", what)
		}
	}
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
