package wire

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// CloseTimeout bounds the orderly close of a connection.
const CloseTimeout = 500 * time.Millisecond

// Link is one open connection with its wire. A watcher goroutine follows the connection, and closes Done when the
// connection ends.
type Link struct {
	broker         *Broker
	host           *Host // of the broker
	conn           *amqp.Connection
	wire           *wire
	mux            *mux                   // nil unless the connection is for Messages
	whole          *boundedConn           // nil unless the connection is for Whole messages
	blocked        atomic.Pointer[string] // the broker's reason while it blocks the connection, else nil
	blockedChanged chan struct{}          // capacity 1; signalled when blocked changes
	closed         chan *amqp.Error       // receives the reason of the end, if there is one; closed at the end
	done           chan struct{}
}

// run is the watcher goroutine. It follows the connection until its end, and then closes done.
func (l *Link) run(blocks <-chan amqp.Blocking, ends <-chan *amqp.Error) {
	defer close(l.done)
	defer close(l.closed)
	defer l.broker.Unblocked(l)
	for {
		select {
		case b, open := <-blocks:
			if !open {
				blocks = nil // the library closes it with the connection, after the send to ends
				continue
			}
			l.block(b)
		case err := <-ends:
			if err != nil {
				l.closed <- err
			}
			return
		}
	}
}

func (l *Link) block(b amqp.Blocking) {
	if b.Active {
		l.broker.Log.Warn("broker blocks a connection", "broker", l.Address(), "reason", b.Reason)
		l.blocked.Store(&b.Reason)
		l.broker.Blocked(l, b.Reason)
	} else {
		l.broker.Log.Info("broker unblocks a connection", "broker", l.Address())
		l.blocked.Store(nil)
		l.broker.Unblocked(l)
	}
	clock.Signal(l.blockedChanged)
}

// Host returns the host of the connection.
func (l *Link) Host() *Host { return l.host }

// Address returns the address of the connection's host, without user and password.
func (l *Link) Address() string { return l.host.address() }

// Blocked returns the broker's reason while it blocks the connection, else nil.
func (l *Link) Blocked() *string { return l.blocked.Load() }

// BlockedChanged returns a channel of capacity 1 that is signalled when the result of Blocked changes.
func (l *Link) BlockedChanged() <-chan struct{} { return l.blockedChanged }

// Done returns a channel that is closed soon after the connection has ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// IsClosed reports whether the connection has ended.
func (l *Link) IsClosed() bool { return l.conn.IsClosed() }

// ServerVersion returns the version that the broker has told, "" without one.
func (l *Link) ServerVersion() string {
	version, _ := l.conn.Properties["version"].(string)
	return version
}

// MaxProperties returns the most bytes of properties that a message may have on the connection, 0 for no limit.
func (l *Link) MaxProperties() int {
	if l.conn.Config.FrameSize == 0 {
		return 0
	}
	return l.conn.Config.FrameSize - FrameOverhead - ContentHeaderSize
}

// Bounded calls do, and kills the connection if do takes longer than DialTimeout. The library's calls take no context.
// Each step of a set-up has its own time, so that a set-up of many steps succeeds over a slow network too. If do fails,
// the link leaves its host (LeaveUnlessRefused).
func (l *Link) Bounded(do func() error) error {
	timer := time.AfterFunc(l.broker.DialTimeout, l.Kill)
	err := do()
	if err != nil {
		l.LeaveUnlessRefused(err)
	}
	if inTime := timer.Stop(); !inTime && err != nil {
		return fmt.Errorf("the broker did not reply within %s: %w", l.broker.DialTimeout, err)
	}
	return err
}

// LeaveUnlessRefused makes the next dial start with the next host, because the host of l accepted the connection and
// failed with err. If err is the broker's refusal of a single step, the host stays the current one: the other hosts
// refuse the step too.
func (l *Link) LeaveUnlessRefused(err error) {
	if !isRefusal(err) {
		l.Leave()
	}
}

// Leave makes the next dial start with the next host.
func (l *Link) Leave() { l.broker.Leave(l.host) }

// LeaveUnconfirming is Leave for a host that serves connections, but does not take or does not confirm the messages of
// a delivery. It does nothing within UnconfirmingInterval after the last such leave. It reports whether the current
// host has changed.
func (l *Link) LeaveUnconfirming() bool { return l.broker.turn.leaveUnconfirming(l.host) }

// isRefusal reports whether err is the broker's refusal of a single step, which closes the channel and leaves the
// connection open.
func isRefusal(err error) bool {
	var e *amqp.Error
	return errors.As(err, &e) && e.Server && e.Recover
}

// Kill ends the connection at once, from any goroutine. The watcher ends soon after.
func (l *Link) Kill() { l.wire.kill() }

// Close closes the connection in order, within CloseTimeout, and waits for the watcher. If the broker blocks the
// connection, Close kills it at once.
func (l *Link) Close() {
	if l.blocked.Load() == nil {
		timer := time.AfterFunc(CloseTimeout, l.Kill)
		_ = l.conn.Close() // an error does not matter: Kill follows
		timer.Stop()
	}
	l.Kill()
	<-l.done
}

// Cause returns the reason why the connection ended. The library notifies the waiters of channels before the waiters of
// the connection. So cause waits for the reason until ctx ends.
func (l *Link) Cause(ctx context.Context) error {
	err, _ := receive(ctx, l.closed)
	if err == nil {
		return ErrClosed
	}
	return Describe(err)
}

// Channel is one AMQP channel. Its buffer for returns holds a whole batch, so that the library never waits to deliver a
// return. The library drops a return after a wait of 5 s.
type Channel struct {
	*amqp.Channel
	Returns   chan amqp.Return // nil without confirm mode
	EndSignal chan *amqp.Error // signals the end like closed does; closed keeps the reason for Fault
	closed    chan *amqp.Error

	// only for channels of a connection for Messages
	ID       uint16
	Confirms *Confirms
}

// Channel opens a channel in confirm mode for batches of up to size messages. It waits for the broker without a limit:
// the caller must kill the link in time.
func (l *Link) Channel(size int) (*Channel, error) {
	c, err := l.PlainChannel()
	if err != nil {
		return nil, err
	}
	c.Returns = c.NotifyReturn(make(chan amqp.Return, size))
	if err := c.Confirm(false); err != nil {
		return nil, fmt.Errorf("set the channel to confirm mode: %w", Describe(err))
	}
	if l.mux != nil {
		c.ID, c.Confirms = l.mux.channel, l.mux.confirms // the mux has read them from the reply to Confirm
	}
	return c, nil
}

// SideChannel opens one more channel in confirm mode beside the lane's own channel. It waits like Channel.
func (l *Link) SideChannel(size int) (*Channel, error) {
	l.mux.openingSide.Store(true)
	defer l.mux.openingSide.Store(false)
	c, err := l.Channel(size)
	if err != nil {
		return nil, err
	}
	c.ID, c.Confirms = uint16(l.mux.lastSide.Load()), newConfirms()
	l.mux.sideConfirms.Store(c.ID, c.Confirms)
	return c, nil
}

// Closed returns the channel that gets the reason when the broker closes the channel.
func (c *Channel) Closed() <-chan *amqp.Error { return c.closed }

// NextReturn takes a returned message from the buffer, if there is one.
func (c *Channel) NextReturn() (r amqp.Return, some bool) {
	select {
	case r, some = <-c.Returns:
		return r, some
	default:
		return r, false
	}
}

// PlainChannel opens a channel without confirms. It waits like Channel.
func (l *Link) PlainChannel() (*Channel, error) {
	ch, err := l.conn.Channel()
	if err != nil {
		return nil, fmt.Errorf("open a channel: %w", Describe(err))
	}
	return &Channel{
		Channel:   ch,
		closed:    ch.NotifyClose(make(chan *amqp.Error, 1)),
		EndSignal: ch.NotifyClose(make(chan *amqp.Error, 1)),
	}, nil
}

// OnChannel calls do with a new channel, because the broker closes a channel with each refusal. It takes at most the
// time of one step.
func (l *Link) OnChannel(do func(*amqp.Channel) error) error {
	return l.Bounded(func() error {
		ch, err := l.conn.Channel()
		if err != nil {
			return err
		}
		if err := do(ch); err != nil {
			return err
		}
		return ch.Close()
	})
}

// Lost returns the reason why a channel or the connection has ended. It returns nil if all are open. It waits at most
// CloseTimeout for the reason.
func (l *Link) Lost(ctx context.Context, channels ...*Channel) error {
	ctx, cancel := context.WithTimeout(ctx, CloseTimeout)
	defer cancel()
	for _, c := range channels {
		if fault := c.Fault(ctx, l); fault != nil {
			return Describe(fault)
		}
	}
	if l.conn.IsClosed() {
		return fmt.Errorf("connection lost: %w", l.Cause(ctx))
	}
	return nil
}

// ErrClosed stands for the end of a connection or channel without a reason.
var ErrClosed = errors.New("closed without a reason")

// ErrCancelled ends a connection if its consumer has ended while the channel is open.
var ErrCancelled = errors.New("the broker cancelled the consumer: its queue was deleted")

// Fault returns the error with which the broker closed the channel. It returns nil if the channel is open, or if the
// connection ended. Only the first call returns the error. The library marks a channel as closed before it delivers the
// error, so Fault waits until ctx ends.
func (c *Channel) Fault(ctx context.Context, l *Link) *amqp.Error {
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

// Describe returns err with the text of the broker if it is an error of the library.
func Describe(err error) error {
	var e *amqp.Error
	if !errors.As(err, &e) {
		return err
	}
	return reply{e}
}

// ReplyCode returns the broker's code in err, 0 without one.
func ReplyCode(err error) int {
	var e *amqp.Error
	if errors.As(err, &e) && e.Server {
		return e.Code
	}
	return 0
}

// BeginDelivery starts a delivery. From now on writes are gathered, and nothing is sent at the write limit or later.
func (l *Link) BeginDelivery(limits ring.Limits) { l.wire.beginDelivery(limits) }

// EndDelivery sends the gathered bytes and ends the delivery. It returns the number of the delivery's writes. The error
// is the first error of any write of the connection; the connection is closed then.
func (l *Link) EndDelivery() (writes int, err error) { return l.wire.endDelivery() }

// Publish writes one message on c: head, which is whole frames, and body in further frames. The connection must be for
// Messages. After amqp.ErrClosed no byte of the message was written. Any other error ends the connection.
func (l *Link) Publish(c *Channel, head, body []byte) error { return l.mux.publish(c, head, body) }

// MaxPayload returns the largest payload of a frame, in bytes. The connection must be for Messages.
func (l *Link) MaxPayload() int { return l.mux.maxPayload }

// Mark returns the current position in the stream: the number of accepted bytes. Later writes lie behind it.
func (l *Link) Mark() int64 { return l.wire.mark() }

// Sent returns the position in the stream up to which the operating system took bytes. It stays the same once Failure
// is not nil.
func (l *Link) Sent() int64 { return l.wire.sent() }

// Failure returns the error of the first write that failed, nil without one.
func (l *Link) Failure() error { return l.wire.failure() }
