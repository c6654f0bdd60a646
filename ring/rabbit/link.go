package rabbit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// closeTimeout bounds the goodbye of a connection that is in good order.
const closeTimeout = 500 * time.Millisecond

// link is one open connection with its wire. Its watcher goroutine ends with the connection; done is closed then.
type link struct {
	conn    *amqp.Connection
	wire    *wire
	mux     *mux                   // of a lane; else nil
	blocked atomic.Pointer[string] // the broker's reason while it does not read from us, else nil
	flipped chan struct{}          // capacity 1: blocked has changed
	closed  chan *amqp.Error       // gets the reason when the connection ends with one, and is closed then
	done    chan struct{}
}

// dial opens a connection; role tells the broker's operator what it is for. It returns when ctx ends at the latest. The
// connection's goroutine is counted in watchers.
func (s *Session) dial(ctx context.Context, role string, watchers *sync.WaitGroup) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	s.metrics.dials.WithLabelValues(role).Inc()
	l := &link{
		flipped: make(chan struct{}, 1),
		closed:  make(chan *amqp.Error, 1),
		done:    make(chan struct{}),
	}
	if err := s.open(ctx, role, l); err != nil {
		s.metrics.errors.WithLabelValues(kindDial).Inc()
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", err, cause)
		}
		return nil, fmt.Errorf("connect to %s: %w", s.address, describe(err))
	}
	s.watch(l, watchers)
	return l, nil
}

// open opens l's connection, and closes it again where that fails half way.
func (s *Session) open(ctx context.Context, role string, l *link) error {
	uri, err := parseURL(s.cfg.URL)
	if err != nil {
		return err
	}
	stop := func() bool { return true }
	l.conn, err = amqp.DialConfig(unsecured(s.cfg.URL), amqp.Config{
		Heartbeat:  s.cfg.Heartbeat,
		Locale:     "en_US",
		Properties: s.properties(role),
		Dial: func(network, _ string) (net.Conn, error) {
			tcp, err := new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(uri.Host, strconv.Itoa(uri.Port)))
			if err != nil {
				return nil, err
			}
			l.wire = newWire(tcp, s.cfg.WriteTimeout, s.cfg.GatherBytes)
			stop = context.AfterFunc(ctx, l.kill) // the library's handshake knows no context
			conn, err := secure(ctx, l.wire, uri)
			if err != nil || role != roleLane {
				return conn, err
			}
			l.mux = newMux(conn)
			return l.mux, nil
		},
	})
	if !stop() && err == nil {
		err = errKilled
	}
	if err != nil && l.wire != nil {
		l.kill() // the library leaves the socket open after some errors
	}
	if err == nil && l.mux != nil {
		l.mux.limit(l.conn.Config.FrameSize)
	}
	return err
}

// properties returns what we tell the broker of ourselves. The library writes into it, so each connection has its own.
func (s *Session) properties(role string) amqp.Table {
	return amqp.Table{
		"product":         "clockd",
		"platform":        "Go",
		"information":     "alarm clock service, " + role + " connection",
		"connection_name": s.cfg.ConnectionName + " " + role,
	}
}

func (s *Session) watch(l *link, watchers *sync.WaitGroup) {
	blocks := l.conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	ends := l.conn.NotifyClose(make(chan *amqp.Error, 1))
	watchers.Go(func() { l.run(s, blocks, ends) })
}

// run follows the connection until it ends; its other end is link.done.
func (l *link) run(s *Session, blocks <-chan amqp.Blocking, ends <-chan *amqp.Error) {
	defer close(l.done)
	defer close(l.closed)
	defer s.health.unblock(l)
	for {
		select {
		case b, open := <-blocks:
			if !open {
				blocks = nil // closed with the connection, after ends
				continue
			}
			l.block(s, b)
		case err := <-ends:
			if err != nil {
				l.closed <- err
			}
			return
		}
	}
}

func (l *link) block(s *Session, b amqp.Blocking) {
	if b.Active {
		s.log.Warn("broker blocks a connection", "broker", s.address, "reason", b.Reason)
		l.blocked.Store(&b.Reason)
		s.health.block(l, b.Reason)
	} else {
		s.log.Info("broker unblocks a connection", "broker", s.address)
		l.blocked.Store(nil)
		s.health.unblock(l)
	}
	signal(l.flipped)
}

// kill ends the connection at once, from any goroutine. The watcher ends soon after.
func (l *link) kill() { l.wire.kill() }

// close says goodbye, at most for closeTimeout, and waits for the watcher. A broker that does not read is not waited for.
func (l *link) close() {
	if l.blocked.Load() == nil {
		timer := time.AfterFunc(closeTimeout, l.kill)
		_ = l.conn.Close() // whatever it says, the connection is gone
		timer.Stop()
	}
	l.kill()
	<-l.done
}

// cause returns why the connection ended, when it has. The library tells a channel's waiters before those of the
// connection, so it waits a little, until ctx ends.
func (l *link) cause(ctx context.Context) error {
	err, _ := receive(ctx, l.closed)
	if err == nil {
		return errClosed
	}
	return describe(err)
}

// channel is one channel. Its buffer for returns holds a whole batch, so that the library never has to wait with one (it
// would drop it after 5 s).
type channel struct {
	*amqp.Channel
	returns chan amqp.Return // nil without confirm mode
	closed  chan *amqp.Error
	ended   chan *amqp.Error // as closed, for who waits for the end and leaves the reason to fault

	// of a lane's
	id        uint16
	published uint64 // messages, and so the delivery tag of the last
}

// channel opens a channel in confirm mode for batches of up to size messages. It blocks on the broker: have the link
// killed in time.
func (l *link) channel(size int) (*channel, error) {
	c, err := l.plain()
	if err != nil {
		return nil, err
	}
	c.returns = c.NotifyReturn(make(chan amqp.Return, size))
	if err := c.Confirm(false); err != nil {
		return nil, fmt.Errorf("set the channel to confirm mode: %w", describe(err))
	}
	if l.mux != nil {
		c.id = l.mux.channel // of the answer that Confirm has waited for
	}
	return c, nil
}

// plain opens a channel without confirms. It blocks as channel does.
func (l *link) plain() (*channel, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", describe(err))
	}
	return &channel{
		Channel: ch,
		closed:  ch.NotifyClose(make(chan *amqp.Error, 1)),
		ended:   ch.NotifyClose(make(chan *amqp.Error, 1)),
	}, nil
}

// lost returns why one of the channels, or the whole connection, has ended, and nil if none has. It waits for the reason a
// little.
func (l *link) lost(ctx context.Context, channels ...*channel) error {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	for _, c := range channels {
		if fault := c.fault(ctx, l); fault != nil {
			return describe(fault)
		}
	}
	if l.conn.IsClosed() {
		return fmt.Errorf("connection lost: %w", l.cause(ctx))
	}
	return nil
}

// errClosed is an end without a reason.
var errClosed = errors.New("it was closed")

// errCancelled ends a connection whose consumer has ended while the channel is open.
var errCancelled = errors.New("the broker cancelled the consumer: its queue was deleted")

// fault returns the error that the broker closed the channel with; nil if it is open, or if it was the connection that
// ended. Only the first call gets it. A channel is marked as closed before its error is there, so it waits, until ctx
// ends.
func (c *channel) fault(ctx context.Context, l *link) *amqp.Error {
	if !c.IsClosed() {
		return nil
	}
	err, ended := receive(ctx, c.closed) // nil after an orderly close
	if !ended || l.conn.IsClosed() {
		return nil
	}
	return err
}

// receive takes what is in c or, if nothing is, waits for it until ctx ends.
func receive[T any](ctx context.Context, c <-chan T) (value T, ok bool) {
	select {
	case value = <-c:
		return value, true
	default:
	}
	select {
	case value = <-c:
		return value, true
	case <-ctx.Done():
		return value, false
	}
}

// reply is an error of the library that reads as the broker said it: "404 NOT_FOUND - no exchange 'clock' in vhost '/'".
type reply struct{ cause *amqp.Error }

func (r reply) Error() string {
	if !r.cause.Server { // the library's own codes mean nothing to a reader
		return r.cause.Reason
	}
	return strconv.Itoa(r.cause.Code) + " " + r.cause.Reason
}

func (r reply) Unwrap() error { return r.cause }

func describe(err error) error {
	var e *amqp.Error
	if !errors.As(err, &e) {
		return err
	}
	return reply{e}
}

// replyCode returns the broker's code in err, 0 if it has none.
func replyCode(err error) int {
	var e *amqp.Error
	if errors.As(err, &e) && e.Server {
		return e.Code
	}
	return 0
}

// signal wakes whoever waits on a channel of capacity 1.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
