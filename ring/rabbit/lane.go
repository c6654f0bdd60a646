package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// minReturns is the least a channel's buffer for returns holds, so that batches of usual sizes share one channel.
const minReturns = 1024

// lane is one connection with one channel, both opened when the target is usable or they are needed. One goroutine.
type lane struct {
	s        *Session
	envelope *envelope
	link     *link        // nil: none yet, or given up
	ch       *channel     // nil: none on link
	rings    []clock.Ring // of the delivery under way
	batch    []try        // one a ring; kept for its memory
	watchers sync.WaitGroup
}

// try is one ring of a delivery.
type try struct {
	tag     uint64        // its delivery tag; 0: not published
	mark    int64         // where in the stream it begins, or a little before
	outcome clock.Outcome // zero: unresolved
}

// errStopped is why nothing is tried when the caller's context has ended.
var errStopped = errors.New("stopped before it was sent")

var _ ring.Lane = (*lane)(nil)

func newLane(s *Session) *lane {
	return &lane{s: s, envelope: newEnvelope(s.cfg.Exchange)}
}

// Open connects and opens the channel; see ring.Lane.
func (l *lane) Open(ctx context.Context) { _ = l.ready(ctx, 0) } // the next delivery finds out why not

// Deliver publishes the rings and waits for their confirms; see ring.Lane.
func (l *lane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	l.rings, l.batch = rings, resize(l.batch, len(rings))
	answer, cancel := context.WithDeadline(ctx, limits.Answer)
	defer cancel()
	if err := l.publish(answer, limits.Write); err != nil {
		l.rest(clock.Outcome{Kind: clock.Unsent, Reason: err.Error()})
	} else {
		l.await(answer)
		l.settle(ctx, answer)
	}
	outcomes := make([]clock.Outcome, len(rings))
	for i := range l.batch {
		outcomes[i] = l.batch[i].outcome
	}
	l.rings = nil
	clear(l.batch)
	return outcomes
}

// publish writes all rings before limit. Its error says why none was even tried; a failure on the way is left to settle,
// which finds the traces of it.
func (l *lane) publish(ctx context.Context, limit time.Time) error {
	write, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	if err := l.ready(write, len(l.rings)); err != nil {
		return err
	}
	// the library's locks may be held by a write of its own that is stuck
	stop := context.AfterFunc(write, l.link.kill)
	defer stop()
	l.link.wire.begin(limit)
	l.hand()
	writes, err := l.link.wire.end()
	l.s.metrics.writes.Add(float64(writes))
	if err != nil {
		l.s.metrics.errors.WithLabelValues(kindWrite).Inc()
	}
	return nil
}

// ready makes sure of a channel for size messages. The error says why there is none.
func (l *lane) ready(ctx context.Context, size int) error {
	switch err := ctx.Err(); {
	case errors.Is(err, context.DeadlineExceeded):
		return errTooLate
	case err != nil:
		return errStopped
	}
	if err := l.s.Usable(); err != nil {
		return err
	}
	if l.link != nil && l.link.conn.IsClosed() {
		l.abandon()
	}
	if l.link == nil {
		link, err := l.s.dial(ctx, roleLane, &l.watchers)
		if err != nil {
			l.s.suspect()
			return err
		}
		l.link = link
	}
	if l.ch != nil && !l.ch.IsClosed() && cap(l.ch.returns) >= size {
		return nil
	}
	return l.open(ctx, size)
}

func (l *lane) open(ctx context.Context, size int) error {
	stop := context.AfterFunc(ctx, l.link.kill) // the library's calls know no context
	defer stop()
	if l.ch != nil {
		_ = l.ch.Close() // too small for this batch, or closed by the broker
	}
	ch, err := l.link.channel(max(size, minReturns))
	if err != nil {
		l.s.metrics.errors.WithLabelValues(kindSetup).Inc()
		l.s.suspect()
		l.abandon()
		return err
	}
	l.ch = ch
	return nil
}

// hand publishes the rings, one after the other, until the channel or the connection ends.
func (l *lane) hand() {
	m, first := l.link.mux, l.ch.published+1
	m.confirms.expect(first, len(l.rings))
	for i := range l.rings {
		t := &l.batch[i]
		head, err := l.envelope.seal(&l.rings[i], l.ch.id)
		if err != nil {
			t.outcome = clock.Outcome{Kind: clock.Refused, Reason: err.Error()}
			continue
		}
		t.mark = l.link.wire.mark()
		if err = m.publish(l.ch, head, l.rings[i].Payload); errors.Is(err, amqp.ErrClosed) {
			break
		}
		l.ch.published++
		t.tag = l.ch.published
		if err != nil {
			break
		}
	}
	m.confirms.await(int(l.ch.published + 1 - first))
}

// await waits until every ring that was published is answered, the channel ends or ctx does, and notes acks and nacks.
func (l *lane) await(ctx context.Context) {
	began := time.Now()
	confirms := l.link.mux.confirms
	select {
	case <-confirms.settled:
	case <-l.ch.ended: //nolint:errcheck // why is found by settle
	case <-ctx.Done():
	}
	for i := range l.batch {
		t := &l.batch[i]
		if t.tag == 0 {
			continue
		}
		switch confirms.of(t.tag) {
		case acked:
			t.outcome.Kind = clock.Confirmed
		case nacked:
			t.outcome = clock.Outcome{Kind: clock.Nacked, Reason: nackReason}
		case unanswered:
		}
	}
	l.s.metrics.confirmWait.Observe(time.Since(began).Seconds())
}

const nackReason = "basic.nack: the broker refused the message (a queue that is full and rejects, or that failed)"

// settle notes the returns and finds what became of the rings that have no answer. With such rings the channel is not
// used again. ctx is the caller's, answer the one that ends at the deadline.
func (l *lane) settle(ctx, answer context.Context) {
	l.takeReturns()
	if l.unresolved() == 0 {
		return
	}
	l.takeUnsent()
	if fault := l.ch.fault(answer, l.link); fault != nil {
		l.rest(l.refusal(fault))
		l.ch = nil
		return
	}
	l.rest(clock.Outcome{Kind: clock.Doubtful, Reason: l.trouble(ctx, answer)})
	l.abandon()
}

// takeReturns notes what came back: a return proves that no queue has the message, whatever its ack says.
func (l *lane) takeReturns() {
	var index map[string]int
	for {
		select {
		case r, open := <-l.ch.returns:
			if !open {
				return
			}
			if index == nil {
				index = l.index()
			}
			if i, ours := index[r.MessageId]; ours {
				l.batch[i].outcome = clock.Outcome{Kind: clock.Returned, Reason: returnReason(r)}
			}
		default:
			return
		}
	}
}

func (l *lane) index() map[string]int {
	index := make(map[string]int, len(l.batch))
	for i := range l.batch {
		if l.batch[i].tag != 0 {
			index[l.rings[i].MessageID()] = i
		}
	}
	return index
}

func returnReason(r amqp.Return) string {
	if r.ReplyCode == amqp.NoRoute {
		return fmt.Sprintf("%d %s: no queue is bound to exchange %q with routing key %q", r.ReplyCode, r.ReplyText, r.Exchange, r.RoutingKey)
	}
	return fmt.Sprintf("%d %s", r.ReplyCode, r.ReplyText)
}

// takeUnsent notes the rings of which no byte has left. If one of them was published, the wire is broken (else end would have
// sent it), so that none can leave any more.
func (l *lane) takeUnsent() {
	sent, reason := l.link.wire.sent(), "not sent: the channel was closed"
	if err := l.link.wire.failure(); err != nil {
		reason = "not sent: " + err.Error()
	}
	for i := range l.batch {
		t := &l.batch[i]
		if t.outcome.Kind == 0 && (t.tag == 0 || sent <= t.mark) {
			t.outcome = clock.Outcome{Kind: clock.Unsent, Reason: reason}
		}
	}
}

// refusal returns what the broker's closing of the channel means for the rings without an answer, and tells the session.
func (l *lane) refusal(fault *amqp.Error) clock.Outcome {
	l.s.metrics.errors.WithLabelValues(kindChannel).Inc()
	reason := describe(fault).Error()
	switch fault.Code {
	case amqp.PreconditionFailed: // one of them cannot be taken; the caller finds out which
		return clock.Outcome{Kind: clock.Refused, Reason: reason}
	case amqp.NotFound, amqp.AccessRefused:
		l.s.renew(reason)
	default:
		l.s.suspect()
	}
	return clock.Outcome{Kind: clock.Doubtful, Reason: reason}
}

// trouble returns why rings have no answer, where the channel itself is not at fault, and tells the session.
func (l *lane) trouble(ctx, answer context.Context) string {
	blocked := l.link.blocked.Load()
	broken := l.link.wire.failure()
	if broken == nil && l.link.conn.IsClosed() {
		broken = l.link.cause(answer)
	}
	switch {
	case broken != nil:
		l.s.metrics.errors.WithLabelValues(kindConnection).Inc()
		l.s.suspect()
		return fmt.Sprintf("connection lost before the confirm: %s", broken)
	case blocked != nil:
		l.s.metrics.errors.WithLabelValues(kindTimeout).Inc()
		why := fmt.Sprintf("the broker takes no messages: %s", *blocked)
		l.s.distrust(why) // the link, and what it knows, goes; the control connection finds out when it is over
		return why
	case ctx.Err() != nil:
		return "stopped while waiting for the confirm"
	default:
		l.s.metrics.errors.WithLabelValues(kindTimeout).Inc()
		l.s.suspect()
		return "no confirm in time"
	}
}

func (l *lane) unresolved() int {
	n := 0
	for i := range l.batch {
		if l.batch[i].outcome.Kind == 0 {
			n++
		}
	}
	return n
}

// rest gives the same outcome to all rings that have none.
func (l *lane) rest(o clock.Outcome) {
	for i := range l.batch {
		if l.batch[i].outcome.Kind == 0 {
			l.batch[i].outcome = o
		}
	}
}

// abandon gives up the connection at once. Its watcher ends soon; Close waits for it.
func (l *lane) abandon() {
	l.link.kill()
	l.link, l.ch = nil, nil
}

// Close closes the connection, in at most some hundred milliseconds, and waits for its goroutines.
func (l *lane) Close() error {
	if l.link != nil {
		l.link.close()
		l.link, l.ch = nil, nil
	}
	l.watchers.Wait()
	return nil
}

// resize returns batch with n zero elements.
func resize(batch []try, n int) []try {
	if cap(batch) < n {
		return make([]try, n)
	}
	return batch[:n]
}
