package rabbit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// minReturns is the smallest buffer for returns of a lane's own channel, so that batches of usual sizes share one
// channel.
const minReturns = 1024

// lane owns one connection with its own channel and side channels. Open connects and opens the lane's own channel.
// Deliver never dials. It opens side channels, and replaces channels after a nack. One goroutine uses a lane.
type lane struct {
	s        *Session
	encoder  *messageEncoder
	link     *wire.Link      // nil: not opened yet, abandoned or set aside
	ch       *channel        // the lane's own channel on link; nil: not open
	sides    []*channel      // side channels on link, for deliveries with a channel for each application
	found    map[string]bool // other exchanges that were found over link
	places   latePlaces      // of late deliveries, each with a connection
	current  delivery        // the delivery under way
	watchers sync.WaitGroup
}

// errStopped is the reason for unsent rings if the caller's context has ended.
var errStopped = errors.New("stopped before the ring was sent")

var _ ring.Lane = (*lane)(nil)

func newLane(s *Session, maxLate int) *lane {
	return &lane{
		s: s, current: delivery{s: s}, places: latePlaces{all: maxLate, freed: make(chan struct{}, 1)},
		encoder: newMessageEncoder(s.cfg.Exchange, s.cfg.Headers),
	}
}

// errNotOpen is the reason for unsent rings if the lane is not open, or if its channel is too small for the batch.
var errNotOpen = errors.New("the lane to the broker is not open")

// Open waits for a place if many deliveries are late, at most DialTimeout. Then it connects and opens the channel,
// which together takes at most DialTimeout; see ring.Lane.
func (l *lane) Open(ctx context.Context, size int) error {
	if l.link != nil && l.link.IsClosed() {
		l.abandon()
	}
	if l.link == nil {
		if err := l.places.awaitFree(ctx, l.s.cfg.DialTimeout); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, l.s.cfg.DialTimeout)
	defer cancel()
	if l.link == nil {
		link, err := l.s.broker.Dial(ctx, roleLane, wire.Messages, &l.watchers)
		if err != nil {
			l.s.requestProbe()
			return err
		}
		l.link, l.found = link, map[string]bool{}
	}
	if l.fits(size) {
		return nil
	}
	return l.openChannel(ctx, size)
}

// fits reports whether the channel is open and its buffer holds the returns of size messages.
func (l *lane) fits(size int) bool {
	return l.ch != nil && !l.ch.IsClosed() && cap(l.ch.Returns) >= size
}

// closedChannel is the result of Broken for a lane that is not open.
var closedChannel = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Broken returns a channel that is closed once the connection has ended; see ring.Lane. The broker closes an AMQP
// channel only during a delivery. So between deliveries it is enough to watch the connection.
func (l *lane) Broken() <-chan struct{} {
	if l.link == nil || l.link.IsClosed() || !l.fits(0) {
		return closedChannel
	}
	return l.link.Done()
}

// Deliver publishes the rings and waits for their confirms; see ring.Lane.
func (l *lane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	l.current.begin(l.link, l.found, rings)
	replyCtx, cancel := context.WithDeadline(ctx, limits.ReplyBy)
	defer cancel()
	if err := l.publish(replyCtx, limits); err != nil {
		l.current.setUnresolved(clock.Outcome{Kind: clock.Unsent, Reason: err.Error()})
	} else {
		l.awaitConfirms(replyCtx, limits.OnConfirmed)
		l.resolve(ctx, replyCtx, limits.Await != nil)
	}
	l.s.lastConfirms.note(&l.current)
	outcomes := l.current.outcomes()
	if l.current.unresolved() > 0 {
		limits.Await(l.setAside())
		return outcomes
	}
	l.current.clear()
	return outcomes
}

// publish writes all rings before the write limit. An error means that it began no ring. It does not report a failure
// while writing: resolve reads such a failure from the wire and the channels.
func (l *lane) publish(ctx context.Context, limits ring.Limits) error {
	writeCtx, cancel := context.WithDeadline(ctx, limits.WriteBy)
	defer cancel()
	if err := l.checkReady(writeCtx, len(l.current.rings)); err != nil {
		return err
	}
	// a stuck write of the library may hold the library's locks: only kill ends it
	stop := context.AfterFunc(writeCtx, l.link.Kill)
	defer stop()
	l.current.address()
	l.findOthers(writeCtx)
	if err := l.assignChannels(limits.OnConfirmed != nil, time.Now().Add(time.Until(limits.WriteBy)/sideTimeShare)); err != nil {
		l.abandon()
		return err
	}
	l.link.BeginDelivery(limits)
	l.publishRings()
	writes, err := l.link.EndDelivery()
	l.s.metrics.writes.Add(float64(writes))
	if err != nil {
		l.s.metrics.errors.WithLabelValues(kindWrite).Inc()
		if stalled := limits.TooLateToWrite() && !errors.Is(err, wire.ErrTooLate); stalled && ctx.Err() == nil {
			l.leaveUnconfirmingHost("it does not take rings in time")
		}
	}
	return nil
}

// leaveUnconfirmingHost makes the next dial begin with the next host, because the host of the link has not taken or not
// confirmed the delivery in time. The cause may also be a queue: then the next host does not confirm either.
func (l *lane) leaveUnconfirmingHost(reason string) {
	if l.link.LeaveUnconfirming() {
		l.s.log.Warn("leaving a broker host: next connections begin with the next host", "broker",
			l.link.Address(), "reason", reason)
	}
}

// checkReady returns nil if size messages may be published now, else the reason.
func (l *lane) checkReady(ctx context.Context, size int) error {
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return wire.ErrTooLate
	case err != nil:
		return errStopped
	}
	if err := l.s.Usable(); err != nil {
		return err
	}
	if l.link == nil || l.link.IsClosed() || !l.fits(size) {
		return errNotOpen
	}
	return nil
}

// openChannel opens the lane's own channel for size messages on the link.
func (l *lane) openChannel(ctx context.Context, size int) error {
	stop := context.AfterFunc(ctx, l.link.Kill) // the library's calls take no context
	defer stop()
	if l.ch != nil {
		_ = l.ch.Close() // too small, or already closed by the broker
	}
	ch, err := openChannel(l.link.Channel, max(size, minReturns))
	if err != nil {
		l.s.metrics.errors.WithLabelValues(kindSetup).Inc()
		l.s.requestProbe()
		l.link.LeaveUnlessRefused(err)
		l.abandon()
		return err
	}
	l.ch = ch
	return nil
}

// sideTimeShare is the part of the time to write in which a delivery opens side channels: a quarter. Each channel takes
// two round trips, and a delivery that opened hundreds would have no time left to publish. The next delivery opens
// more, because channels stay open.
const sideTimeShare = 4

// channel is a channel of a lane, in confirm mode.
type channel struct {
	*wire.Channel
	published uint64 // number of published messages, and delivery tag of the last one
	first     uint64 // delivery tag of the first message of the delivery under way
	nacked    bool   // the broker has nacked a message; the next delivery replaces the channel
	exchange  string // the other exchange that the delivery under way publishes to; "": the session's own
}

// openChannel returns a channel of open with room for the returns of size messages.
func openChannel(open func(size int) (*wire.Channel, error), size int) (*channel, error) {
	ch, err := open(size)
	if err != nil {
		return nil, err
	}
	return &channel{Channel: ch}, nil
}

// channelUse is what a channel is for during a delivery.
type channelUse struct {
	exchange string // the other exchange that its rings go to; "": the session's own
	receiver string // with a channel for each receiver
}

// assignChannels gives each ring its channel: the lane's own channel, or with separate one channel for each
// application. The broker stops reading a channel while it waits for a quorum queue to which the channel has not
// published before. So one such queue would delay the other applications on the channel. Rings without a side channel
// at openUntil use the lane's own channel. Rings to another exchange always use a side channel of that exchange,
// because the broker closes the channel if the exchange is missing. Without one they are unsent.
func (l *lane) assignChannels(separate bool, openUntil time.Time) error {
	if l.ch.nacked && time.Now().Before(openUntil) {
		if err := l.replaceChannel(); err != nil {
			return err
		}
	}
	channels, uses := map[channelUse]*channel{}, l.channelUses(separate)
	counts := map[channelUse]int{}
	for _, use := range uses {
		counts[use]++
	}
	l.current.channels = append(l.current.channels[:0], l.ch)
	ownUsed, sides := false, 0
	for i, use := range uses {
		t := &l.current.states[i]
		if t.outcome.Kind != 0 {
			continue
		}
		ch, assigned := channels[use]
		switch {
		case assigned:
		case use.exchange == "" && (!separate || !ownUsed):
			ch, ownUsed = l.ch, true
		default:
			var err error
			if ch, err = l.sideChannel(sides, counts[use], openUntil); err != nil {
				return err
			}
			if ch != nil {
				sides++
				ch.exchange = use.exchange
			} else if use.exchange == "" {
				ch = l.ch
			}
		}
		channels[use], t.ch = ch, ch
		if ch == nil {
			t.outcome = clock.Outcome{Kind: clock.Unsent, Reason: noSideChannel}
		}
	}
	for _, ch := range l.current.channels {
		ch.Confirms.Expect(ch.published+1, len(l.current.rings))
		ch.first = ch.published + 1
	}
	return nil
}

// noSideChannel is the reason of a ring to another exchange for which no channel could be opened.
const noSideChannel = "not sent: there was no time to open a channel for the exchange of the ring"

// channelUses returns the use of the channel of each ring.
func (l *lane) channelUses(separate bool) []channelUse {
	uses := make([]channelUse, len(l.current.rings))
	for i := range l.current.rings {
		uses[i].exchange = l.current.otherExchange(i)
		if separate {
			uses[i].receiver = l.current.rings[i].Receiver()
		}
	}
	return uses
}

// replaceChannel replaces the lane's own channel after a nack. RabbitMQ 3.10 registers a channel with a quorum queue at
// its first message. If the queue's leader has died and the channel does not know the new one yet, the channel nacks
// all its messages to that queue until the dead host is back. A new channel knows the new leader.
func (l *lane) replaceChannel() error {
	_ = l.ch.Close() // an error shows in the next step
	ch, err := openChannel(l.link.Channel, cap(l.ch.Returns))
	if err != nil {
		l.s.metrics.errors.WithLabelValues(kindSetup).Inc()
		return err
	}
	l.ch = ch
	return nil
}

// minSideReturns is the smallest buffer for returns of a side channel.
const minSideReturns = 64

// sideChannel returns the nth side channel, for size rings. It opens no channel after openUntil. It returns nil if the
// side channel does not exist or is too small, and cannot be opened.
func (l *lane) sideChannel(n, size int, openUntil time.Time) (*channel, error) {
	for n < len(l.sides) && time.Now().Before(openUntil) && (l.sides[n].nacked || cap(l.sides[n].Returns) < size) { // nacked: see replaceChannel
		_ = l.sides[n].Close()
		l.sides = slices.Delete(l.sides, n, n+1) // the channel after it takes its place
	}
	if n == len(l.sides) && time.Now().Before(openUntil) {
		ch, err := openChannel(l.link.SideChannel, max(size, minSideReturns))
		switch {
		case err == nil:
			l.sides = append(l.sides, ch)
		case errors.Is(err, amqp.ErrChannelMax):
			return nil, nil
		default:
			l.s.metrics.errors.WithLabelValues(kindSetup).Inc()
			return nil, err
		}
	}
	if n < len(l.sides) && cap(l.sides[n].Returns) >= size {
		l.current.channels = append(l.current.channels, l.sides[n])
		return l.sides[n], nil
	}
	return nil, nil
}

// publishRings publishes the rings, one after the other, until a channel or the connection ends.
func (l *lane) publishRings() {
	l.encoder.maxHeader = l.link.MaxPayload()
	for i := range l.current.rings {
		t := &l.current.states[i]
		if t.outcome.Kind != 0 {
			continue
		}
		head, err := l.encoder.encode(&l.current.rings[i], &t.to, t.ch.ID)
		if err != nil {
			t.outcome = clock.Outcome{Kind: clock.Refused, Reason: err.Error()}
			continue
		}
		t.mark = l.link.Mark()
		if err = l.link.Publish(t.ch.Channel, head, l.current.rings[i].Payload); errors.Is(err, amqp.ErrClosed) {
			break
		}
		t.ch.published++
		t.tag = t.ch.published
		if err != nil {
			break
		}
	}
	for _, ch := range l.current.channels {
		ch.Confirms.AllPublished(int(ch.published + 1 - ch.first))
	}
}

// awaitConfirms waits until every published ring has a confirm, until its channel ends, or until ctx ends. Then it sets
// the outcomes of acked and nacked rings. If onConfirmed is not nil, it is called for each acked ring meanwhile, every
// reportInterval.
func (l *lane) awaitConfirms(ctx context.Context, onConfirmed func(ring int)) {
	began := time.Now()
	var ticks <-chan time.Time
	if onConfirmed != nil {
		ticker := time.NewTicker(reportInterval)
		defer ticker.Stop()
		ticks = ticker.C
	}
	for _, ch := range l.current.channels {
		l.awaitChannel(ctx, ch, ticks, onConfirmed)
	}
	l.current.noteConfirms()
	l.s.metrics.confirmWait.Observe(time.Since(began).Seconds())
}

// awaitChannel waits for the confirms of one channel.
func (l *lane) awaitChannel(ctx context.Context, ch *channel, ticks <-chan time.Time, onConfirmed func(ring int)) {
	for {
		select {
		case <-ticks:
			l.reportConfirmed(onConfirmed)
		case <-ch.Confirms.Complete:
			return
		case <-ch.EndSignal: //nolint:errcheck // resolve finds the reason
			return
		case <-ctx.Done():
			return
		}
	}
}

// reportInterval is the longest time from a ring's confirm to its report while other rings of the delivery have no
// confirm.
const reportInterval = 20 * time.Millisecond

// reportConfirmed calls onConfirmed for the rings acked since the last call. The broker sends a return before the ack
// of its message. So reportConfirmed reads the acks first and the returns second.
func (l *lane) reportConfirmed(onConfirmed func(ring int)) {
	var acks []int
	for i := range l.current.states {
		if t := &l.current.states[i]; t.tag != 0 && t.outcome.Kind == 0 && t.ch.Confirms.Get(t.tag) == wire.Acked {
			acks = append(acks, i)
		}
	}
	l.current.resolveReturned()
	for _, i := range acks {
		if t := &l.current.states[i]; t.outcome.Kind == 0 {
			t.outcome.Kind = clock.Confirmed
			onConfirmed(i)
		}
	}
}

// resolve sets the outcomes of returned rings and of rings without a confirm. It abandons the connection if a ring
// stays in doubt. With mayWait it leaves rings unresolved whose confirm may still come: then the delivery must be set
// aside. ctx is the caller's context; replyCtx ends at the reply limit.
func (l *lane) resolve(ctx, replyCtx context.Context, mayWait bool) {
	l.current.resolveReturned()
	if l.current.unresolved() == 0 {
		return
	}
	l.current.resolveUnsent()
	l.drop(l.current.resolveFaulted(replyCtx))
	if l.current.unresolved() == 0 {
		return
	}
	reason := l.reportMissingConfirms(ctx, replyCtx)
	if mayWait && ctx.Err() == nil && !l.link.IsClosed() && l.link.Failure() == nil {
		return
	}
	l.current.setUnresolved(clock.Outcome{Kind: clock.Doubtful, Reason: reason})
	l.abandon()
}

// drop forgets channels that the broker has closed. Open opens the lane's own channel again; a later delivery opens
// side channels.
func (l *lane) drop(closed []*channel) {
	for _, ch := range closed {
		if ch == l.ch {
			l.ch = nil
		}
		l.sides = slices.DeleteFunc(l.sides, func(side *channel) bool { return side == ch })
	}
}

// reportMissingConfirms finds the reason why rings on open channels have no confirm, and returns it. Depending on the
// reason it counts an error, requests a probe, and leaves the host.
func (l *lane) reportMissingConfirms(ctx, replyCtx context.Context) string {
	blocked := l.link.Blocked()
	broken := l.link.Failure()
	if broken == nil && l.link.IsClosed() {
		broken = l.link.Cause(replyCtx)
	}
	switch {
	case broken != nil:
		l.s.metrics.errors.WithLabelValues(kindConnection).Inc()
		l.s.requestProbe()
		return fmt.Sprintf("connection lost before the confirm: %s", broken)
	case blocked != nil:
		l.s.metrics.errors.WithLabelValues(kindTimeout).Inc()
		why := fmt.Sprintf("the broker takes no messages: %s", *blocked)
		l.s.doubtUntilProbed(why) // the control connection finds out when the block is over
		return why
	case ctx.Err() != nil:
		return "stopped while waiting for the confirm"
	default:
		l.s.metrics.errors.WithLabelValues(kindTimeout).Inc()
		l.s.requestProbe()
		l.leaveUnconfirmingHost("it does not confirm rings in time")
		return lateReason
	}
}

// abandon ends the connection at once. Its watcher ends soon after; Close waits for the watcher.
func (l *lane) abandon() {
	l.link.Kill()
	l.link, l.ch, l.sides = nil, nil, nil
}

// Close closes the connection and waits for its goroutines, and for the end of late deliveries. Without those it takes
// at most CloseTimeout and a little more.
func (l *lane) Close() error {
	if l.link != nil {
		l.link.Close()
		l.link, l.ch = nil, nil
	}
	l.watchers.Wait()
	return nil
}
