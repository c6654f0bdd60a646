package rabbit

import (
	"context"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// delivery is the rings of one call of Deliver, and their outcomes so far.
type delivery struct {
	s        *Session
	link     *wire.Link      // nil: none was open
	found    map[string]bool // of the lane, for link
	channels []*channel      // channels on link that publish the rings
	rings    []clock.Ring    // no other goroutine changes them
	states   []ringState     // one for each ring; a lane reuses the memory
}

// ringState is the state of one ring during a delivery.
type ringState struct {
	ch  *channel // the channel that publishes the ring
	tag uint64   // delivery tag; 0: not published
	to  address

	mark    int64         // position in the wire's stream at or shortly before the message's begin
	outcome clock.Outcome // zero: unresolved
}

// begin makes d the delivery of the rings over the link. d must be new or cleared.
func (d *delivery) begin(link *wire.Link, found map[string]bool, rings []clock.Ring) {
	d.link, d.found, d.rings = link, found, rings
	if cap(d.states) < len(rings) {
		d.states = make([]ringState, len(rings))
	}
	d.states = d.states[:len(rings)]
}

// clear forgets the rings and their states. It keeps the memory of the states.
func (d *delivery) clear() {
	d.link, d.found, d.rings = nil, nil, nil
	clear(d.states)
}

// outcomes returns the outcome of each ring. Rings without an outcome are awaited.
func (d *delivery) outcomes() []clock.Outcome {
	outcomes := make([]clock.Outcome, len(d.states))
	for i := range d.states {
		if outcomes[i] = d.states[i].outcome; outcomes[i].Kind == 0 {
			outcomes[i] = clock.Outcome{Kind: clock.Awaited, Reason: lateReason}
		}
	}
	return outcomes
}

// lateReason is the reason of a ring that has no confirm at the reply limit, although its connection lives.
const lateReason = "no confirm in time"

// noteConfirms sets the outcomes of acked and nacked rings. resolveReturned must follow.
func (d *delivery) noteConfirms() {
	for i := range d.states {
		t := &d.states[i]
		if t.tag == 0 || t.outcome.Kind == clock.Returned {
			continue
		}
		switch t.ch.Confirms.Get(t.tag) {
		case wire.Acked:
			t.outcome.Kind = clock.Confirmed
		case wire.Nacked:
			t.outcome = clock.Outcome{Kind: clock.Nacked, Reason: nackReason}
			t.ch.nacked = true
		case wire.Unconfirmed:
		}
	}
}

const nackReason = "basic.nack: the broker refused the message (a queue that is full and rejects, or that failed)"

// resolveReturned sets the outcomes of returned rings. A return proves that no queue has the message, even if the
// broker acks it.
func (d *delivery) resolveReturned() {
	var index map[string]int
	for _, ch := range d.channels {
		for r, some := ch.NextReturn(); some; r, some = ch.NextReturn() {
			if index == nil {
				index = d.indexByMessageID()
			}
			if i, ours := index[returnedID(&r)]; ours {
				d.states[i].outcome = clock.Outcome{Kind: clock.Returned, Reason: returnReason(r)}
			}
		}
	}
}

// returnedID returns the message id of the returned ring. A message that waited for its time keeps its own id, and ours
// is in a header.
func returnedID(r *amqp.Return) string {
	if id, isText := wire.Text(r.Headers[headerOurMessageID]); isText {
		return id
	}
	return r.MessageId
}

func (d *delivery) indexByMessageID() map[string]int {
	index := make(map[string]int, len(d.states))
	for i := range d.states {
		if d.states[i].tag != 0 {
			index[d.rings[i].MessageID()] = i
		}
	}
	return index
}

func returnReason(r amqp.Return) string {
	if r.ReplyCode == amqp.NoRoute {
		return fmt.Sprintf("%d %s: no queue is bound to exchange %q with routing key %q", r.ReplyCode, r.ReplyText,
			r.Exchange, r.RoutingKey)
	}
	return fmt.Sprintf("%d %s", r.ReplyCode, r.ReplyText)
}

// resolveUnsent sets the outcomes of rings without a written byte. If such a ring was published, the wire is broken,
// because EndDelivery has not sent it. So no byte of the ring can leave any more.
func (d *delivery) resolveUnsent() {
	sent, reason := d.link.Sent(), "not sent: the channel was closed"
	if err := d.link.Failure(); err != nil {
		reason = "not sent: " + err.Error()
	}
	for i := range d.states {
		t := &d.states[i]
		if t.outcome.Kind == 0 && (t.tag == 0 || sent <= t.mark) {
			t.outcome = clock.Outcome{Kind: clock.Unsent, Reason: reason}
		}
	}
}

// resolveFaulted sets the outcomes of unresolved rings on channels that the broker has closed, and returns these
// channels.
func (d *delivery) resolveFaulted(ctx context.Context) (closed []*channel) {
	for _, ch := range d.channels {
		fault := ch.Fault(ctx, d.link)
		if fault == nil {
			continue
		}
		d.noteConfirms() // the last ones before the fault
		d.resolveReturned()
		var open []*ringState
		doubtful := 0
		for i := range d.states {
			switch t := &d.states[i]; {
			case t.ch == ch && t.outcome.Kind == 0:
				open = append(open, t)
			case t.ch == ch && t.outcome.Kind == clock.Doubtful: // given up before its confirm
				doubtful++
			}
		}
		outcome := d.channelFault(ch, fault, len(open)+doubtful)
		for _, t := range open {
			t.outcome = outcome
		}
		closed = append(closed, ch)
	}
	return closed
}

// channelFault returns the outcome of the unresolved rings on a channel that the broker has closed. It tells the
// session about the fault. The fault does not say which message it is about, unless there is only one.
func (d *delivery) channelFault(ch *channel, fault *amqp.Error, unresolved int) clock.Outcome {
	d.s.metrics.errors.WithLabelValues(kindChannel).Inc()
	reason := wire.Describe(fault).Error()
	switch fault.Code {
	case amqp.PreconditionFailed: // the broker cannot take one ring; the caller finds that ring
		return clock.Outcome{Kind: clock.Refused, Reason: reason}
	case amqp.NotFound, amqp.AccessRefused:
		if ch.exchange == "" {
			d.s.requestReconnect(reason)
		} else {
			d.s.exchanges.refused(ch.exchange, reason)
			delete(d.found, ch.exchange) // it is looked for before the next try
			if unresolved == 1 {
				return clock.Outcome{Kind: clock.Returned, Reason: reason}
			}
		}
	default:
		d.s.requestProbe()
	}
	return clock.Outcome{Kind: clock.Doubtful, Reason: reason}
}

func (d *delivery) unresolved() int {
	n := 0
	for i := range d.states {
		if d.states[i].outcome.Kind == 0 {
			n++
		}
	}
	return n
}

// setUnresolved gives an outcome to all rings without an outcome.
func (d *delivery) setUnresolved(outcome clock.Outcome) {
	for i := range d.states {
		if d.states[i].outcome.Kind == 0 {
			d.states[i].outcome = outcome
		}
	}
}
