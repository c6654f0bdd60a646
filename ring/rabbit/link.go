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

	"github.com/clockd/clockd/clock"
)

// closeTimeout bounds the orderly close of a connection.
const closeTimeout = 500 * time.Millisecond

// link is one open connection with its wire. A watcher goroutine follows the connection, and closes done when the
// connection ends.
type link struct {
	host           *brokerHost
	turn           *hostTurn // of the session; it has host
	conn           *amqp.Connection
	wire           *wire
	mux            *mux                   // nil unless the connection is a lane's
	whole          *boundedConn           // nil unless the connection is for large messages of the intake
	blocked        atomic.Pointer[string] // the broker's reason while it blocks the connection, else nil
	blockedChanged chan struct{}          // capacity 1; signalled when blocked changes
	stepTimeout    time.Duration          // longest time of one step of a set-up, see bounded
	exchanges      map[string]bool        // only for a lane: other exchanges that were found over this connection
	closed         chan *amqp.Error       // receives the reason of the end, if there is one; closed at the end
	done           chan struct{}
}

// dial opens a connection to a host. It tries the hosts in turn, and leaves each host that fails. role names the
// purpose of the connection in the broker's lists. dial returns when ctx ends at the latest. watchers counts the
// connection's watcher goroutine.
func (s *Session) dial(ctx context.Context, role string, watchers *sync.WaitGroup) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	s.turn.use(role, nil)
	hosts, failed := s.turn.inTurn(), map[*brokerHost]error{}
	for i, host := range hosts {
		l, err := s.dialHost(ctx, role, host, connectShare(ctx, len(hosts)-i))
		if err == nil {
			s.turn.use(role, host)
			s.watch(l, role, watchers)
			return l, nil
		}
		s.turn.leave(host)
		failed[host] = err
		if ctx.Err() != nil {
			break
		}
	}
	var errs dialErrors // in the order of the URL, so that dials that begin with different hosts have the same text
	for _, host := range s.turn.hosts {
		if err := failed[host]; err != nil {
			errs = append(errs, err)
		}
	}
	return nil, errs
}

// dialHost opens a connection to one host. The TCP connect takes at most connectTime.
func (s *Session) dialHost(
	ctx context.Context, role string, host *brokerHost, connectTime time.Duration,
) (*link, error) {
	s.metrics.dials.WithLabelValues(role, host.name()).Inc()
	l := &link{
		host:           host,
		turn:           s.turn,
		blockedChanged: make(chan struct{}, 1),
		exchanges:      map[string]bool{},
		stepTimeout:    s.cfg.DialTimeout,
		closed:         make(chan *amqp.Error, 1),
		done:           make(chan struct{}),
	}
	if err := s.open(ctx, role, l, connectTime); err != nil {
		s.metrics.errors.WithLabelValues(kindDial).Inc()
		err = describe(err)
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w (%w)", err, cause)
		}
		return nil, fmt.Errorf("connect to %s: %w", host.address(), err)
	}
	return l, nil
}

// open opens the connection of l. If it fails half way, it closes the connection.
func (s *Session) open(ctx context.Context, role string, l *link, connectTime time.Duration) (err error) {
	stop := func() bool { return true }
	l.conn, err = amqp.DialConfig(unsecured(l.host.url), amqp.Config{
		Heartbeat:  s.cfg.Heartbeat,
		Locale:     "en_US",
		Properties: s.properties(role),
		Dial: func(network, _ string) (net.Conn, error) {
			tcp, err := (&net.Dialer{Timeout: connectTime}).DialContext(ctx, network, l.host.name())
			if err != nil {
				return nil, err
			}
			l.wire = newWire(tcp, s.cfg.WriteTimeout, s.cfg.GatherBytes)
			stop = context.AfterFunc(ctx, l.kill) // the library's handshake takes no context
			conn, err := secure(ctx, l.wire, l.host.uri)
			if err != nil {
				return nil, err
			}
			switch role {
			case roleLane:
				l.mux = newMux(conn)
				return l.mux, nil
			case roleAnswers:
				return newBoundedConn(conn, 0), nil // nothing reads the body of an answer
			case roleWakes:
				return newBoundedConn(conn, maxWakeBody), nil
			case roleIntake:
				return newMarkingConn(conn, s.cfg.Intake.MaxBody), nil
			case roleIntakeWhole:
				l.whole = newWholeConn(conn)
				return l.whole, nil
			default:
				return conn, nil
			}
		},
	})
	if !stop() && err == nil {
		err = errKilled
	}
	if err != nil && l.wire != nil {
		l.kill() // the library leaves the socket open after some errors
	}
	if err == nil && l.whole != nil {
		l.whole.maxFrame.Store(int64(l.conn.Config.FrameSize))
	}
	if err == nil && l.mux != nil {
		l.mux.setMaxFrame(l.conn.Config.FrameSize)
	}
	return err
}

// properties returns clockd's description of itself for the broker. The library writes into the table, so each
// connection has its own.
func (s *Session) properties(role string) amqp.Table {
	return amqp.Table{
		"product":         "clockd",
		"platform":        "Go",
		"information":     "alarm clock service, " + role + " connection",
		"connection_name": s.cfg.ConnectionName + " " + role,
	}
}

func (s *Session) watch(l *link, role string, watchers *sync.WaitGroup) {
	connections := s.metrics.connections.WithLabelValues(role, l.host.name())
	connections.Inc()
	blocks := l.conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	ends := l.conn.NotifyClose(make(chan *amqp.Error, 1))
	watchers.Go(func() {
		defer connections.Dec()
		l.run(s, blocks, ends)
	})
}

// run is the watcher goroutine. It follows the connection until its end, and then closes done.
func (l *link) run(s *Session, blocks <-chan amqp.Blocking, ends <-chan *amqp.Error) {
	defer close(l.done)
	defer close(l.closed)
	defer s.health.unblock(l)
	for {
		select {
		case b, open := <-blocks:
			if !open {
				blocks = nil // the library closes it with the connection, after the send to ends
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
		s.log.Warn("broker blocks a connection", "broker", l.host.address(), "reason", b.Reason)
		l.blocked.Store(&b.Reason)
		s.health.block(l, b.Reason)
	} else {
		s.log.Info("broker unblocks a connection", "broker", l.host.address())
		l.blocked.Store(nil)
		s.health.unblock(l)
	}
	clock.Signal(l.blockedChanged)
}

// bounded calls do, and kills the connection if do takes longer than DialTimeout. The library's calls take no context.
// Each step of a set-up has its own time, so that a set-up of many steps succeeds over a slow network too. If do fails,
// the link leaves its host (leaveUnlessRefused).
func (l *link) bounded(do func() error) error {
	timer := time.AfterFunc(l.stepTimeout, l.kill)
	err := do()
	if err != nil {
		l.leaveUnlessRefused(err)
	}
	if inTime := timer.Stop(); !inTime && err != nil {
		return fmt.Errorf("the broker did not reply within %s: %w", l.stepTimeout, err)
	}
	return err
}

// leaveUnlessRefused makes the next dial start with the next host, because the host of l accepted the connection and
// failed with err. If err is the broker's refusal of a single step, the host stays the current one: the other hosts
// refuse the step too.
func (l *link) leaveUnlessRefused(err error) {
	if !isRefusal(err) {
		l.turn.leave(l.host)
	}
}

// isRefusal reports whether err is the broker's refusal of a single step, which closes the channel and leaves the
// connection open.
func isRefusal(err error) bool {
	var e *amqp.Error
	return errors.As(err, &e) && e.Server && e.Recover
}

// kill ends the connection at once, from any goroutine. The watcher ends soon after.
func (l *link) kill() { l.wire.kill() }

// close closes the connection in order, within closeTimeout, and waits for the watcher. If the broker blocks the
// connection, close kills it at once.
func (l *link) close() {
	if l.blocked.Load() == nil {
		timer := time.AfterFunc(closeTimeout, l.kill)
		_ = l.conn.Close() // an error does not matter: kill follows
		timer.Stop()
	}
	l.kill()
	<-l.done
}

// cause returns the reason why the connection ended. The library notifies the waiters of channels before the waiters of
// the connection. So cause waits for the reason until ctx ends.
func (l *link) cause(ctx context.Context) error {
	err, _ := receive(ctx, l.closed)
	if err == nil {
		return errClosed
	}
	return describe(err)
}

// channel is one AMQP channel. Its buffer for returns holds a whole batch, so that the library never waits to deliver a
// return. The library drops a return after a wait of 5 s.
type channel struct {
	*amqp.Channel
	returns   chan amqp.Return // nil without confirm mode
	closed    chan *amqp.Error
	endSignal chan *amqp.Error // signals the end like closed does; closed keeps the reason for fault

	// only for a lane's channels
	id        uint16
	confirms  *confirms
	published uint64 // number of published messages, and delivery tag of the last one
	first     uint64 // delivery tag of the first message of the delivery under way
	nacked    bool   // the broker has nacked a message; the next delivery replaces the channel
	exchange  string // the other exchange that the delivery under way publishes to; "": the session's own
}

// channel opens a channel in confirm mode for batches of up to size messages. It waits for the broker without a limit:
// the caller must kill the link in time.
func (l *link) channel(size int) (*channel, error) {
	c, err := l.plainChannel()
	if err != nil {
		return nil, err
	}
	c.returns = c.NotifyReturn(make(chan amqp.Return, size))
	if err := c.Confirm(false); err != nil {
		return nil, fmt.Errorf("set the channel to confirm mode: %w", describe(err))
	}
	if l.mux != nil {
		c.id, c.confirms = l.mux.channel, l.mux.confirms // the mux has read them from the reply to Confirm
	}
	return c, nil
}

// sideChannel opens one more channel in confirm mode beside the lane's own channel. It waits like channel.
func (l *link) sideChannel(size int) (*channel, error) {
	l.mux.openingSide.Store(true)
	defer l.mux.openingSide.Store(false)
	c, err := l.channel(size)
	if err != nil {
		return nil, err
	}
	c.id, c.confirms = uint16(l.mux.lastSide.Load()), newConfirms()
	l.mux.sideConfirms.Store(c.id, c.confirms)
	return c, nil
}

// nextReturn takes a returned message from the buffer, if there is one.
func (c *channel) nextReturn() (r amqp.Return, some bool) {
	select {
	case r, some = <-c.returns:
		return r, some
	default:
		return r, false
	}
}

// plainChannel opens a channel without confirms. It waits like channel.
func (l *link) plainChannel() (*channel, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", describe(err))
	}
	return &channel{
		Channel:   ch,
		closed:    ch.NotifyClose(make(chan *amqp.Error, 1)),
		endSignal: ch.NotifyClose(make(chan *amqp.Error, 1)),
	}, nil
}

// lost returns the reason why a channel or the connection has ended. It returns nil if all are open. It waits at most
// closeTimeout for the reason.
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

// errClosed stands for the end of a connection or channel without a reason.
var errClosed = errors.New("closed without a reason")

// errCancelled ends a connection if its consumer has ended while the channel is open.
var errCancelled = errors.New("the broker cancelled the consumer: its queue was deleted")

// fault returns the error with which the broker closed the channel. It returns nil if the channel is open, or if the
// connection ended. Only the first call returns the error. The library marks a channel as closed before it delivers the
// error, so fault waits until ctx ends.
func (c *channel) fault(ctx context.Context, l *link) *amqp.Error {
	if !c.IsClosed() {
		return nil
	}
	err, ended := receive(ctx, c.closed) // err is nil after an orderly close
	if !ended || l.conn.IsClosed() {
		return nil
	}
	return err
}

// receive takes a value from c. It waits for the value until ctx ends.
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

// reply is an error of the library with the broker's own text: "404 NOT_FOUND - no exchange 'clock' in vhost '/'".
type reply struct{ cause *amqp.Error }

func (r reply) Error() string {
	if !r.cause.Server { // the library's own codes do not help a reader
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

// replyCode returns the broker's code in err, 0 without one.
func replyCode(err error) int {
	var e *amqp.Error
	if errors.As(err, &e) && e.Server {
		return e.Code
	}
	return 0
}
