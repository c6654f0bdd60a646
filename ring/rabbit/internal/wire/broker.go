package wire

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// BrokerConfig says how to reach a broker, and who hears of its connections.
type BrokerConfig struct {
	Hosts          []*Host // at least one, in the order in which dials try them
	ConnectionName string  // name of the connections in the broker's lists, before the role

	Heartbeat              time.Duration // heartbeat interval that clockd asks of the broker
	DialTimeout            time.Duration // longest time to open a connection, on all hosts together; and of each step of a set-up
	WriteTimeout           time.Duration // longest time of a write outside a delivery
	BackoffMin, BackoffMax time.Duration // wait before dialling again
	GatherBytes            int           // bytes of the messages of a delivery that are gathered for a write

	Log         *slog.Logger
	Dials       *prometheus.CounterVec // tries to connect, by role and host
	Connections *prometheus.GaugeVec   // open connections, by role and host
	DialErrors  prometheus.Counter

	Blocked   func(l *Link, reason string) // the broker has blocked the connection
	Unblocked func(l *Link)                // the broker has unblocked the connection, or it has ended
}

// Broker opens connections to the hosts of one broker. Any goroutine may call its methods.
type Broker struct {
	BrokerConfig
	turn *hostTurn
}

// NewBroker returns a broker. It connects to nothing.
func NewBroker(cfg BrokerConfig) *Broker { return &Broker{cfg, newHostTurn(cfg.Hosts)} }

// Address returns the URL of the broker with all its hosts, without user and password.
func (b *Broker) Address() string { return Address(b.Hosts) }

// AddressFor returns the address of the host that the role used last, or of all hosts.
func (b *Broker) AddressFor(role string) string { return b.turn.addressFor(role) }

// Reason returns the text of an error that ended the role's connection. With several hosts the text names the host.
func (b *Broker) Reason(role string, err error) string { return b.turn.reason(role, err) }

// NextHost returns the host that the next dial tries first.
func (b *Broker) NextHost() *Host { return b.turn.inTurn()[0] }

// Leave makes the next dial start with the host after h, if h is the current host.
func (b *Broker) Leave(h *Host) { b.turn.leave(h) }

// HostOf returns the host of the role's last connection, nil if the last dial reached no host or is under way.
func (b *Broker) HostOf(role string) *Host { return b.turn.used(role) }

// Dial opens a connection to a host. It tries the hosts in turn, and leaves each host that fails. role names the
// purpose of the connection in the broker's lists. Dial returns when ctx ends at the latest. watchers counts the
// connection's watcher goroutine.
func (b *Broker) Dial(ctx context.Context, role string, use Use, watchers *sync.WaitGroup) (*Link, error) {
	ctx, cancel := context.WithTimeout(ctx, b.DialTimeout)
	defer cancel()
	b.turn.use(role, nil)
	hosts, failed := b.turn.inTurn(), map[*Host]error{}
	for i, host := range hosts {
		l, err := b.dialHost(ctx, role, use, host, connectShare(ctx, len(hosts)-i))
		if err == nil {
			b.turn.use(role, host)
			b.watch(l, role, watchers)
			return l, nil
		}
		b.turn.leave(host)
		failed[host] = err
		if ctx.Err() != nil {
			break
		}
	}
	var errs dialErrors // in the order of the URL, so that dials that begin with different hosts have the same text
	for _, host := range b.turn.hosts {
		if err := failed[host]; err != nil {
			errs = append(errs, err)
		}
	}
	return nil, errs
}

// dialHost opens a connection to one host. The TCP connect takes at most connectTime.
func (b *Broker) dialHost(
	ctx context.Context, role string, use Use, host *Host, connectTime time.Duration,
) (*Link, error) {
	b.Dials.WithLabelValues(role, host.Name()).Inc()
	l := &Link{
		broker:         b,
		host:           host,
		blockedChanged: make(chan struct{}, 1),
		closed:         make(chan *amqp.Error, 1),
		done:           make(chan struct{}),
	}
	if err := b.open(ctx, role, use, l, connectTime); err != nil {
		b.DialErrors.Inc()
		err = Describe(err)
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", err, cause)
		}
		return nil, fmt.Errorf("connect to %s: %w", host.address(), err)
	}
	return l, nil
}

// open opens the connection of l. If it fails half way, it closes the connection.
func (b *Broker) open(ctx context.Context, role string, use Use, l *Link, connectTime time.Duration) (err error) {
	stop := func() bool { return true }
	l.conn, err = amqp.DialConfig(unsecured(l.host.url), amqp.Config{
		Heartbeat:  b.Heartbeat,
		Locale:     "en_US",
		Properties: b.properties(role),
		Dial: func(network, _ string) (net.Conn, error) {
			tcp, err := (&net.Dialer{Timeout: connectTime}).DialContext(ctx, network, l.host.Name())
			if err != nil {
				return nil, err
			}
			l.wire = newWire(tcp, b.WriteTimeout, b.GatherBytes)
			stop = context.AfterFunc(ctx, l.Kill) // the library's handshake takes no context
			conn, err := secure(ctx, l.wire, l.host.uri)
			if err != nil {
				return nil, err
			}
			return use(l, conn), nil
		},
	})
	if !stop() && err == nil {
		err = errKilled
	}
	if err != nil && l.wire != nil {
		l.Kill() // the library leaves the socket open after some errors
	}
	if err == nil && l.whole != nil {
		l.whole.maxFrame.Store(int64(l.conn.Config.FrameSize))
	}
	if err == nil && l.mux != nil {
		l.mux.setMaxFrame(l.conn.Config.FrameSize)
	}
	return err
}

// Use puts a net.Conn of this package between the library and the socket of a connection.
type Use func(l *Link, conn net.Conn) net.Conn

// Plain leaves the connection to the library.
func Plain(_ *Link, conn net.Conn) net.Conn { return conn }

// Messages is for a connection that publishes messages past the library, and takes their confirms (Link.Publish).
func Messages(l *Link, conn net.Conn) net.Conn {
	l.mux = newMux(conn)
	return l.mux
}

// Bounded is for a connection that consumes messages. A body of more than maxBody bytes is dropped.
func Bounded(maxBody int) Use {
	return func(_ *Link, conn net.Conn) net.Conn { return newBoundedConn(conn, maxBody) }
}

// Marking is Bounded, with a header in each message that is changed: HeaderOversized or HeaderUnreadable.
func Marking(maxBody int) Use {
	return func(_ *Link, conn net.Conn) net.Conn { return newMarkingConn(conn, maxBody) }
}

// Whole is for a connection that consumes messages of any size. It changes unreadable headers, and headers that are too
// large for a frame, and nothing else.
func Whole(l *Link, conn net.Conn) net.Conn {
	l.whole = newWholeConn(conn)
	return l.whole
}

// properties returns clockd's description of itself for the broker. The library writes into the table, so each
// connection has its own.
func (b *Broker) properties(role string) amqp.Table {
	return amqp.Table{
		"product":         "clockd",
		"platform":        "Go",
		"information":     "alarm clock service, " + role + " connection",
		"connection_name": b.ConnectionName + " " + role,
	}
}

func (b *Broker) watch(l *Link, role string, watchers *sync.WaitGroup) {
	connections := b.Connections.WithLabelValues(role, l.host.Name())
	connections.Inc()
	blocks := l.conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	ends := l.conn.NotifyClose(make(chan *amqp.Error, 1))
	watchers.Go(func() {
		defer connections.Dec()
		l.run(blocks, ends)
	})
}

// KeepConnected calls serve again and again until ctx ends. serve opens one connection of the role, uses it until it
// ends, and returns the reason. established reports whether the connection became usable. The pause between two calls
// grows until a connection is established.
func (b *Broker) KeepConnected(
	ctx context.Context, role string, serve func(context.Context) (established bool, err error),
) {
	backoff, failures := clock.Backoff{First: b.BackoffMin, Last: b.BackoffMax}, 0
	var logged []string // the last errors, one for each host: hosts that fail in turn have errors of their own
	for ctx.Err() == nil {
		established, err := serve(ctx)
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelDebug // the same error again
		if text := err.Error(); established || !slices.Contains(logged, text) {
			level = slog.LevelWarn
			logged = lastOf(append(logged, text), len(b.Hosts))
		}
		b.Log.Log(ctx, level, "broker is not usable", "role", role, "broker", b.AddressFor(role), "err", err)
		if established {
			failures = 0
		}
		Pause(ctx, backoff.Wait(failures))
		failures++
	}
}

// lastOf returns the last n elements of list, or all of a shorter list.
func lastOf(list []string, n int) []string { return list[max(0, len(list)-n):] }

// Pause sleeps for d or until ctx ends.
func Pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
