package rabbit

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// closedPort returns an address without a listener.
func closedPort(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.3:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// silentHost accepts connections and writes nothing, until the test ends.
func silentHost(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	var accepting sync.WaitGroup
	var conns []net.Conn
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
		for _, conn := range conns {
			_ = conn.Close()
		}
	})
	return listener.Addr().String()
}

// connectionsTo returns how many connections of the role are open to the host.
func connectionsTo(s *Session, role, host string) float64 {
	return testutil.ToFloat64(s.metrics.connections.WithLabelValues(role, host))
}

// dialledHost opens a control connection of a new session, closes it, and returns the host that it led to.
func dialledHost(tb testing.TB, cfg Config) (s *Session, host string) {
	tb.Helper()
	s, err := New(cfg, Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	var watchers sync.WaitGroup
	l, err := s.broker.Dial(tb.Context(), roleControl, wire.Plain, &watchers)
	if err != nil {
		tb.Fatal(err)
	}
	l.Close()
	watchers.Wait()
	return s, l.Host().Name()
}

// dialsTo returns how often the role has dialled the host.
func dialsTo(s *Session, role, host string) float64 {
	return testutil.ToFloat64(s.metrics.dials.WithLabelValues(role, host))
}

// wantRingsThrough delivers rings on a new lane until they are confirmed, and fails unless the lane uses the host.
func wantRingsThrough(t *testing.T, b *rabbittest.Broker, s *Session, host string) {
	t.Helper()
	queue := b.Queue("shop", nil)
	l := laneOf(t, s)
	rabbittest.Eventually(t, 10*time.Second, "an open lane", func() bool { return l.Open(t.Context(), 3) == nil })
	wantAll(t, l.Deliver(t.Context(), rings("shop", 3), ampleLimits()), clock.Confirmed)
	b.Take(queue, 3)
	if l.link.Host().Name() != host {
		t.Errorf("the lane uses %s, want %s", l.link.Host().Name(), host)
	}
}

func TestURLNamesHostsOnceEachOrIsRefused(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"amqp://u:p@h":                       "amqp://h:5672/",
		"amqp://u:p@h1:1,h2:2,h3/shop":       "amqp://h1:1,h2:2,h3:5672/shop",
		"amqps://h1,h2:2?heartbeat=5":        "amqps://h1:5671,h2:2/",
		"amqp://a,b:c,d@h1,h2/a%2Cb":         "amqp://h1:5672,h2:5672/a,b",
		"amqp://u:p@[::1]:7,[fe80::1],h3:1/": "amqp://[::1]:7,[fe80::1]:5672,h3:1/",
		"amqp:///shop":                       "amqp://localhost:5672/shop",
	} {
		cfg := DefaultConfig()
		cfg.URL = raw
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		if got, _, _ := strings.Cut(cfg.String(), ", exchange"); got != want {
			t.Errorf("%s is shown as %s, want %s", raw, got, want)
		}
	}
	for _, raw := range []string{
		"amqp://,", "amqp://h1,", "amqp://,h1", "amqp://h1,,h2", "amqp://h1,:5672", "amqp://h1,h1", "amqp://h1:5672,h1",
		"amqp://h1, h2", "amqp://h1:x,h2",
	} {
		if hosts, err := wire.ParseURL(raw); err == nil {
			t.Errorf("%s has the hosts %s", raw, wire.Address(hosts))
		}
	}
}

// largeRings returns n rings of application, each larger than a packet.
func largeRings(application string, n int) []clock.Ring {
	batch := rings(application, n)
	for i := range batch {
		batch[i].Payload = []byte(`"` + strings.Repeat("x", 3000) + `"`)
	}
	return batch
}

// lossyHost starts a proxy to the broker that loses large packets, and returns its address. Handshakes, set-ups and
// probes are small.
func lossyHost(t *testing.T, target string) string {
	t.Helper()
	p, via := rabbittest.ProxyTo(t, target)
	p.LoseLarger(1400)
	return rabbittest.HostOf(t, via)
}

// The first host confirms probes and small rings, and never gets the large ones. The lane goes on over the second host,
// and the rings in doubt arrive with their second delivery.
func TestHostThatConfirmsProbesAndNoRingsIsLeft(t *testing.T) {
	t.Parallel()
	for _, awaited := range []bool{false, true} {
		t.Run(fmt.Sprintf("awaited=%t", awaited), func(t *testing.T) {
			t.Parallel()
			b := rabbittest.Shared(t)
			first, second := lossyHost(t, b.URL), rabbittest.HostOf(t, b.URL)
			cfg := configOf(b)
			cfg.URL = rabbittest.WithHosts(t, b.URL, first, second)
			s := startUsable(t, cfg)
			queue := b.Queue("shop", rabbittest.Quorum)
			l := laneOf(t, s)
			wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits()), clock.Confirmed)
			b.Take(queue, 1)
			if l.link.Host().Name() != first {
				t.Fatalf("the lane begins at %s, want %s", l.link.Host().Name(), first)
			}
			batch := largeRings("shop", 10)
			if awaited {
				var late ring.LateRings
				wantAll(t, l.Deliver(t.Context(), batch, awaiting(&late)), clock.Awaited)
				defer late.End()
			} else {
				wantAll(t, l.Deliver(t.Context(), batch, shortLimits()), clock.Doubtful)
			}
			wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed)
			if l.link.Host().Name() != second {
				t.Errorf("the lane uses %s, want %s", l.link.Host().Name(), second)
			}
			if err := s.Usable(); err != nil || connectionsTo(s, roleControl, first) != 1 {
				t.Errorf("usable: %v; %v control connections to %s, want 1", err, connectionsTo(s, roleControl, first),
					first)
			}
			arrived := b.Arrived(queue)
			for i := range batch {
				if n := arrived[batch[i].MessageID()]; n != 1 {
					t.Errorf("ring %d arrived %d times", i, n)
				}
			}
		})
	}
}

// The host reads nothing, so the write of a large batch stalls until the write limit.
func TestHostThatStallsAWriteIsLeft(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	first, second := rabbittest.HostOf(t, cfg.URL), rabbittest.HostOf(t, b.URL)
	cfg.URL = rabbittest.WithHosts(t, b.URL, first, second)
	s := startUsable(t, cfg)
	b.Queue("shop", nil)
	l := laneOf(t, s)
	batch := rings("shop", 600)
	for i := range batch {
		batch[i].Payload = []byte(strings.Repeat("x", 64<<10))
	}
	if err := l.Open(t.Context(), len(batch)); err != nil {
		t.Fatal(err)
	}
	p.Stall(true)
	outcomes := l.Deliver(t.Context(), batch, shortLimits())
	p.Stall(false)
	if n := count(outcomes); n[clock.Unsent] == 0 {
		t.Fatalf("the write did not stall: %v", n)
	}
	if next := s.broker.NextHost().Name(); next != second {
		t.Errorf("the next dial begins with %s, want %s", next, second)
	}
}

// The rings of one application are confirmed by no host. Its lane goes to the next host at most once in
// UnconfirmingInterval, and the lane of the other application keeps its connection.
func TestQueueThatNeverConfirmsMovesNoOtherLane(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	cfg := configOf(b)
	cfg.URL = rabbittest.WithHosts(t, b.URL, lossyHost(t, b.URL), lossyHost(t, b.URL))
	s := startUsable(t, cfg)
	b.Queue("sick", nil)
	b.Queue("well", nil)
	sick, well := laneOf(t, s), laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), well, rings("well", 1), ampleLimits()), clock.Confirmed)
	began, wellLink := time.Now(), well.link
	moves, last := 0, wellLink.Host()
	for range 5 {
		if err := sick.Open(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if sick.link.Host() != last {
			moves, last = moves+1, sick.link.Host()
		}
		outcome := sick.Deliver(t.Context(), largeRings("sick", 1), within(1500*time.Millisecond, 2*time.Second))[0]
		if outcome.Kind != clock.Doubtful && outcome.Kind != clock.Unsent { // unsent only on a busy machine
			t.Fatalf("outcome %+v", outcome)
		}
		wantAll(t, openAndDeliver(t.Context(), well, rings("well", 1), ampleLimits()), clock.Confirmed)
	}
	if most := 1 + int(time.Since(began)/wire.UnconfirmingInterval); moves < 1 || moves > most {
		t.Errorf("the lane of the sick application has moved %d times, want 1 to %d", moves, most)
	}
	if well.link != wellLink {
		t.Errorf("the lane of the healthy application has a new connection to %s", well.link.Host().Name())
	}
}

func TestHostThatRefusesIsPassedOver(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	first, second := closedPort(t), rabbittest.HostOf(t, b.URL)
	cfg := configOf(b)
	cfg.URL = rabbittest.WithHosts(t, b.URL, first, second)
	s := startUsable(t, cfg)
	wantRingsThrough(t, b, s, second)
	if n := connectionsTo(s, roleControl, second); n != 1 {
		t.Errorf("%v control connections to %s", n, second)
	}
	if n := dialsTo(s, roleLane, first); n != 0 {
		t.Errorf("the lane dialled %s, which the control connection had left", first)
	}
}

// No connection of the session stays at a host that accepts connections and answers nothing.
func TestHostThatNeverAnswersIsLeft(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	second := rabbittest.HostOf(t, b.URL)
	cfg := wakesOf(t, b)
	cfg.URL, cfg.DialTimeout = rabbittest.WithHosts(t, b.URL, silentHost(t), second), 2*time.Second
	s := startUsable(t, cfg)
	wantRingsThrough(t, b, s, second)
	l, _ := listen(t, cfg) // in a session of its own
	l.follow(t, 5)
	l.Send(5, []byte("heard"))
	l.hears(t, "heard")
}

// The first host opens connections, and no channel on them.
func TestHostThatOpensNoChannelIsLeft(t *testing.T) {
	t.Parallel()
	for role, connect := range map[string]func(ctx context.Context, s *Session) error{
		"lane": func(ctx context.Context, s *Session) error {
			l := newLane(s, 1)
			defer l.Close()
			return l.Open(ctx, 1)
		},
		"control": func(ctx context.Context, s *Session) error {
			c := &control{s: s}
			err := c.connect(ctx)
			if err == nil {
				c.link.Close()
			}
			c.watchers.Wait()
			return err
		},
	} {
		t.Run(role, func(t *testing.T) {
			b := rabbittest.Shared(t)
			broken := scripted.Start(t, 0, func(s *scripted.Broker) { s.Until(scripted.ConnectionClose) })
			first, second := rabbittest.HostOf(t, broken.URL()), rabbittest.HostOf(t, b.URL)
			cfg := configOf(b)
			cfg.URL, cfg.DialTimeout = rabbittest.WithHosts(t, b.URL, first, second), 5*time.Second
			s, err := New(cfg, Deps{})
			if err != nil {
				t.Fatal(err)
			}
			if err := connect(t.Context(), s); err == nil {
				t.Fatal("the broken host opened a channel")
			}
			rabbittest.Eventually(t, 10*time.Second, "a connection to the next host",
				func() bool { return connect(t.Context(), s) == nil })
			if h, n := s.broker.HostOf(role), dialsTo(s, role, first); h == nil || h.Name() != second || n != 1 {
				t.Errorf("the connection uses %v, want %s; %v dials to the other host, want 1", h, second, n)
			}
		})
	}
}

// A host takes more than its share of DialTimeout for the handshake. It is healthy, so the dial waits for it. Of 41
// hosts the first has a share of DialTimeout/41: a quarter of a second by default, less than the lag of a single read.
func TestSlowHostIsNotLeft(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	p, via := rabbittest.ProxyTo(t, b.URL)
	p.Lag(400 * time.Millisecond)
	cfg := configOf(b)
	first := rabbittest.HostOf(t, via)
	hosts := []string{first}
	for i := range 40 {
		hosts = append(hosts, fmt.Sprintf("127.0.1.%d:1", i))
	}
	cfg.URL = rabbittest.WithHosts(t, b.URL, hosts...)
	s, host := dialledHost(t, cfg)
	if host != first || connectionsTo(s, roleControl, first) != 0 {
		t.Errorf("the connection leads to %s; %v are open after its end", host, connectionsTo(s, roleControl, first))
	}
}

func TestHostThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	p, via := rabbittest.ProxyTo(t, b.URL)
	first, second := rabbittest.HostOf(t, via), rabbittest.HostOf(t, b.URL)
	cfg := configOf(b)
	cfg.URL = rabbittest.WithHosts(t, b.URL, first, second)
	s := startUsable(t, cfg)
	queue := b.Queue("shop", nil)
	l := laneOf(t, s)
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 3), ampleLimits()), clock.Confirmed)
	if l.link.Host().Name() != first {
		t.Errorf("the lane begins at %s, want %s", l.link.Host().Name(), first)
	}
	p.Close()
	rabbittest.Eventually(t, 10*time.Second, "rings through the other host", func() bool {
		return openAndDeliver(t.Context(), l, rings("shop", 1), ampleLimits())[0].Kind == clock.Confirmed
	})
	b.Take(queue, 4)
	waitUsable(t, s, 10*time.Second)
	rabbittest.Eventually(t, 10*time.Second, "a control connection to the other host",
		func() bool { return connectionsTo(s, roleControl, second) == 1 })
	if n := connectionsTo(s, roleControl, first); n != 0 {
		t.Errorf("%v control connections to the dead host", n)
	}
}

// The host in use falls silent, and its port still accepts connections. The probe finds it, and the log names both
// hosts.
func TestHostThatFallsSilentIsLeft(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	p, via := rabbittest.ProxyTo(t, b.URL)
	first, second := rabbittest.HostOf(t, via), rabbittest.HostOf(t, b.URL)
	cfg := configOf(b)
	cfg.URL, cfg.ProbeTimeout = rabbittest.WithHosts(t, b.URL, first, second), 5*time.Second
	var out bytes.Buffer
	s, err := New(cfg, Deps{Log: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	waitUsable(t, s, 10*time.Second)
	p.Stall(true)
	reason := waitUnusable(t, s, 10*time.Second).Error()
	waitUsable(t, s, 10*time.Second)
	wantRingsThrough(t, b, s, second)
	stop()
	if n := dialsTo(s, roleControl, first); n != 1 {
		t.Errorf("%v dials to the silent host, want 1", n)
	}
	if !strings.HasPrefix(reason, first+": the broker did not confirm a probe") {
		t.Errorf("reason %q", reason)
	}
	for _, line := range []string{
		`msg="broker is usable" broker=amqp://` + first,
		`msg="broker is not usable" role=control broker=amqp://` + first,
		`msg="broker is usable" broker=amqp://` + second,
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no line %s in\n%s", line, &out)
		}
	}
}

// An exchange of another type is a fault of every host, so the session stays where it is.
func TestHostThatRefusesASetUpStepIsNotLeft(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	_, via := rabbittest.ProxyTo(t, b.URL)
	first, second := rabbittest.HostOf(t, via), rabbittest.HostOf(t, b.URL)
	b.Must(b.Ch.ExchangeDeclare(b.Exchange, "fanout", true, false, false, false, nil))
	cfg := configOf(b)
	cfg.URL = rabbittest.WithHosts(t, b.URL, first, second)
	s := run(t, cfg)
	rabbittest.Eventually(t, 10*time.Second, "three dials",
		func() bool { return dialsTo(s, roleControl, first)+dialsTo(s, roleControl, second) >= 3 })
	if n := dialsTo(s, roleControl, second); n > 0 {
		t.Errorf("%v dials to %s", n, second)
	}
}

// The broker refuses confirm mode for the channel of a lane. Every host refuses the same step, so the next dial begins with the same host.
func TestHostThatRefusesTheChannelOfALaneIsNotLeft(t *testing.T) {
	t.Parallel()
	b := scripted.Start(t, 0, func(s *scripted.Broker) {
		channel := s.Until(scripted.ChannelOpen).Channel
		s.SendMethod(channel, scripted.ChannelOpenOk, make([]byte, 4))
		s.Until(scripted.ConfirmSelect)
		code := binary.BigEndian.AppendUint16(nil, amqp.AccessRefused)
		s.SendMethod(channel, scripted.ChannelClose, append(code, make([]byte, 5)...)) // no text, no method
		s.Until(scripted.ConnectionClose)
	})
	cfg := DefaultConfig()
	first := rabbittest.HostOf(t, b.URL())
	cfg.URL = rabbittest.WithHosts(t, b.URL(), first, closedPort(t))
	s, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	l := newLane(s, 1)
	defer l.Close()
	if err := l.Open(t.Context(), 1); wire.ReplyCode(err) != amqp.AccessRefused {
		t.Errorf("the error is %v, want %d", err, amqp.AccessRefused)
	}
	if next := s.broker.NextHost().Name(); next != first {
		t.Errorf("the next dial begins with %s, want %s", next, first)
	}
}

// The certificate of both hosts names the second one only, so the dial must check each host under its own name.
func TestEachHostIsCheckedUnderItsOwnName(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	_, via := rabbittest.ProxyToTLS(t, b.URL)
	u, err := url.Parse(via)
	if err != nil {
		t.Fatal(err)
	}
	second := u.Host
	first := "localhost:" + u.Port()
	cfg := configOf(b)
	cfg.URL = rabbittest.WithHosts(t, via, first, second)
	s := startUsable(t, cfg)
	wantRingsThrough(t, b, s, second)
	if n := dialsTo(s, roleControl, first); n != 1 {
		t.Errorf("%v dials to %s", n, first)
	}
}

func TestErrorOfADialNamesEveryHostOnce(t *testing.T) {
	t.Parallel()
	first, second := closedPort(t), closedPort(t)
	cfg := DefaultConfig()
	cfg.URL = "amqp://" + first + "," + second + "/shop"
	s, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	var last string
	for range 3 { // the turn begins with another host each time, and the text stays the same
		s.broker.Leave(s.broker.NextHost())
		_, err := s.broker.Dial(t.Context(), roleControl, wire.Plain, nil)
		want := "connect to amqp://" + first + "/shop: "
		if err == nil || !strings.HasPrefix(err.Error(), want) ||
			!strings.Contains(err.Error(), "; connect to amqp://"+second+"/shop: ") ||
			last != "" && err.Error() != last {
			t.Errorf("the error is %v, want %s...; before: %s", err, want, last)
		}
		last = fmt.Sprint(err)
	}
}
