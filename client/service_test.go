package client_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/ringstream"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/stream"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/sqlite"
)

// serverURL is the URL of the service that the tests and the examples share. Each uses applications of its own.
var serverURL string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clockd-client")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	s, err := startService(filepath.Join(dir, "clockd.db"), "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	serverURL = s.url
	code := m.Run()
	if err := s.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if leaked := goleak.Find(); leaked != nil && code == 0 {
		fmt.Fprintln(os.Stderr, leaked)
		code = 1
	}
	return code
}

// service is a whole clockd in this process: SQLite, the ring loop, and the stream as its target.
type service struct {
	url     string
	addr    string
	store   store.Store
	running []component // in the order of their start
}

// component is a running part of the service.
type component struct {
	end  context.CancelFunc
	done chan error
}

// startService starts a service on a SQLite file. Another service may continue with the file after stop.
func startService(file, listen string) (*service, error) {
	reg, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	cfg := sqlite.DefaultConfig()
	cfg.URL, cfg.Shards = "sqlite:"+file, 4
	cfg.Timeout = time.Minute // a slow disk is no reason to fail the start, which cmd/clockd would repeat
	st, err := sqlite.New(cfg, sqlite.Deps{Log: log, Registerer: reg})
	if err != nil {
		return nil, err
	}
	s := &service{store: st}
	ctx := context.Background()
	if err := errors.Join(st.Migrate(ctx), st.Check(ctx)); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	if err := s.wire(listen, log, reg); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// wire joins the parts as cmd/clockd does, and starts them.
func (s *service) wire(listen string, log *slog.Logger, reg *prometheus.Registry) error {
	streams := stream.New()
	timing := clock.DefaultTimebaseConfig()
	timing.MaxAge = time.Minute
	tb, err := clock.NewTimebase(timing, clock.TimebaseDeps{Source: s.store, Log: log})
	if err != nil {
		return err
	}
	if err := tb.Sample(context.Background()); err != nil {
		return err
	}
	reads, preloading := preload.NewReads(s.store), preload.DefaultConfig()
	heap := ring.NewHeap(preloading.Loaders, 10_000)
	leases := lease.DefaultConfig()
	leases.Name, leases.Incarnation, leases.Streams = "test", fmt.Sprintf("test-%d", time.Now().UnixNano()), true
	keeper, err := lease.New(leases, lease.Deps{
		Leaser: s.store, Time: tb, Streams: streams, Address: func() string { return s.addr }, Log: log,
		Registerer: reg,
	})
	if err != nil {
		return err
	}
	preloader, err := preload.New(preloading,
		preload.Deps{Loader: reads, Heap: heap, Time: tb, Ownership: keeper, Log: log, Registerer: reg})
	if err != nil {
		return err
	}
	loop, err := ring.New(ring.DefaultConfig(), ring.Deps{
		Heap: heap, Database: s.store, Time: tb, Feeder: preloader, Timer: ring.PreciseTimer, Log: log, Registerer: reg,
		Routes: []*ring.Route{{Name: "stream", Target: streams, HoldsClaims: true, SeparateReplies: true}},
	})
	if err != nil {
		return err
	}
	alarms, err := clock.NewService(clock.DefaultServiceConfig(), clock.ServiceDeps{
		Store: s.store, Prober: s.store, Time: tb, Listener: preloader, Log: log,
	})
	if err != nil {
		return err
	}
	journal, err := ringstream.NewJournal(ringstream.Deps{Alarms: alarms, Registerer: reg})
	if err != nil {
		return err
	}
	web := clockhttp.DefaultConfig()
	web.Listen = listen
	server, err := clockhttp.New(web, clockhttp.Deps{
		Alarms: alarms, Streams: streams, Journal: journal, Nodes: s.nodes(leases.Incarnation, tb),
		Readiness: func() clockhttp.Readiness { return clockhttp.Readiness{Ready: true} },
		Log:       log, Registerer: reg, Gatherer: reg,
	})
	if err != nil {
		return err
	}
	port, err := clockhttp.Listen(context.Background(), web, log, reg)
	if err != nil {
		return err
	}
	server.Attach(port)
	s.addr = port.Addr().String()
	s.url = "http://" + s.addr
	for _, run := range []func(context.Context) error{tb.Run, loop.Run, reads.Run, preloader.Run, alarms.Run, server.Run, keeper.Run} {
		s.run(run)
	}
	return nil
}

// nodes returns the view of this one node.
func (s *service) nodes(self string, tb *clock.Timebase) clockhttp.Nodes {
	return func(ctx context.Context) (clockhttp.NodesView, error) {
		now, err := tb.AtLeast()
		if err != nil {
			return clockhttp.NodesView{}, err
		}
		seen, err := s.store.Cluster(ctx)
		v := clockhttp.NodesView{Self: self, DatabaseTime: now}
		for _, l := range seen.Leases {
			v.Shards = append(v.Shards,
				clockhttp.ShardView{Shard: l.Shard, Node: l.Owner, Incarnation: l.Incarnation, Epoch: l.Epoch,
					ExpiresAt: l.Expires})
		}
		for _, n := range seen.Nodes {
			v.Nodes = append(v.Nodes,
				clockhttp.NodeView{Name: n.Name, Incarnation: n.Incarnation, Address: n.Address, StartedAt: n.Started,
					ExpiresAt: n.Expires, Alive: n.Alive(now)})
		}
		return v, err
	}
}

func (s *service) run(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := component{end: cancel, done: make(chan error, 1)}
	go func() { c.done <- run(ctx) }()
	s.running = append(s.running, c)
}

// stop stops the parts in the reverse order and closes the store.
func (s *service) stop() error {
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		s.running[i].end()
		errs = append(errs, <-s.running[i].done)
	}
	s.running = nil
	return errors.Join(append(errs, s.store.Close())...)
}

// newService starts a service of the test's own.
func newService(t *testing.T, file, listen string) (url string, stop func()) {
	t.Helper()
	s, err := startService(file, listen)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := s.stop(); err != nil {
			t.Errorf("stop the service: %v", err)
		}
	})
	t.Cleanup(stop)
	return s.url, stop
}

// dial returns a client of the service at url.
func dial(t *testing.T, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// applications holds the application of each test.
var applications sync.Map

// applicationOf returns the test's application, which no other test and no other run of the test has.
func applicationOf(t *testing.T) string {
	app, _ := applications.LoadOrStore(t, "test-"+rand.Text())
	return app.(string)
}

// refused checks that err is an *Error with this code, and returns it.
func refused(t *testing.T, err error, code string) *client.Error {
	t.Helper()
	var failed *client.Error
	if !errors.As(err, &failed) || failed.Code != code {
		t.Fatalf("got %v (%+v), want the code %q", err, failed, code)
	}
	return failed
}
