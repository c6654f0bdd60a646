package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// maxLateDeliveries is the most late deliveries of a lane.
const maxLateDeliveries = 8

// link is a client with a gate. One delivery at a time uses it. A link whose delivery has a record without a reply is
// used for no other delivery.
type link struct {
	target *Target
	client *kgo.Client
	gate   *gate
	ctx    context.Context //nolint:containedctx // ends with the link, and its flushes with it
	cancel func()          // ends ctx
	used   bool            // a delivery has used it: the topics that it knows may be old
}

// end closes the client in a goroutine. Records without a reply are given up; the gate is shut.
func (l *link) end() {
	l.gate.shut()
	l.cancel()
	l.target.ending.Go(l.client.Close)
}

// flush lets the client send what it has, until it has a reply to every record.
func (l *link) flush() {
	l.target.ending.Go(func() { _ = l.client.Flush(l.ctx) }) // the error says that the link has ended
}

// lane hands over one batch at a time.
type lane struct {
	target *Target
	link   *link         // nil: not open
	broken chan struct{} // closed while link is nil
	places chan struct{} // one element for each late delivery
}

// Open connects to the cluster and gets a producer id, which needs the right to write idempotently.
func (l *lane) Open(ctx context.Context, _ int) error {
	if l.link != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, l.target.cfg.DialTimeout)
	defer cancel()
	select { // a place for the next delivery, in case that it is late
	case l.places <- struct{}{}:
		<-l.places
	case <-ctx.Done():
		return ring.ErrLaneFull
	}
	g := newGate()
	client, err := kgo.NewClient(l.target.options(g)...)
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	next := &link{target: l.target, client: client, gate: g}
	next.ctx, next.cancel = context.WithCancel(context.Background())
	if _, _, err := client.ProducerID(ctx); err != nil {
		next.end()
		return fmt.Errorf("no producer id: %w", err)
	}
	l.link, l.broken = next, make(chan struct{})
	return nil
}

// Broken returns a channel that is closed when the lane has no link.
func (l *lane) Broken() <-chan struct{} { return l.broken }

// Close closes the link.
func (l *lane) Close() error {
	if taken := l.take(); taken != nil {
		taken.end()
	}
	return nil
}

// take takes the link off the lane, which must then be opened again. It returns nil if the lane has none.
func (l *lane) take() *link {
	taken := l.link
	if taken != nil {
		l.link = nil
		close(l.broken)
	}
	return taken
}

// Deliver produces the rings, and waits for the replies.
func (l *lane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	d := &delivery{link: l.link, outcomes: make([]clock.Outcome, len(rings)), records: make([]*kgo.Record, len(rings)),
		replies: make(chan reply, len(rings)), limits: limits, acks: l.target.cfg.PatientAckTimeout}
	if limits.Shared && !ofOneApplication(rings) {
		d.acks = l.target.cfg.AckTimeout
	}
	switch {
	case len(rings) == 0:
		return d.outcomes
	case l.link == nil:
		d.setAll(clock.Outcome{Kind: clock.Unsent, Reason: "the lane is not open"})
		return d.outcomes
	case limits.TooLateToWrite():
		d.setAll(clock.Outcome{Kind: clock.Unsent, Reason: errTooLate.Error()})
		return d.outcomes
	}
	d.fresh, d.link.used = !d.link.used, true
	d.link.gate.begin(limits, d.acks)
	d.produce(rings)
	d.gather(ctx)
	d.link.flush()
	d.await(ctx)
	d.link.gate.shut()
	d.takeReplies()
	if d.left == 0 && !d.stale { // the client has forgotten all records
		return d.outcomes
	}
	l.take()
	d.resolveUnsent()
	if limits.Await == nil || ctx.Err() != nil || d.awaited() == 0 {
		d.End()
		return d.outcomes
	}
	l.places <- struct{}{} // Open has seen to it that there is room
	d.places = l.places
	outcomes := append([]clock.Outcome(nil), d.outcomes...)
	limits.Await(d)
	return outcomes
}

// ofOneApplication reports whether no application waits for the replies to rings of another.
func ofOneApplication(rings []clock.Ring) bool {
	for i := range rings {
		if rings[i].Application != rings[0].Application {
			return false
		}
	}
	return true
}

// reply is the client's word about one record.
type reply struct {
	ring int // index in the delivery
	err  error
}

// delivery is the rings of one call of Deliver. If the replies of some are late, it is used as ring.LateRings.
type delivery struct {
	link     *link
	limits   ring.Limits
	acks     time.Duration   // time that leaders have for the acks of their replicas
	outcomes []clock.Outcome // Awaited: no reply yet
	records  []*kgo.Record   // nil: the ring has its outcome
	replies  chan reply      // room for one reply a ring, so that the client never waits
	left     int             // records without a reply
	places   chan struct{}   // of the lane, if the delivery is late
	fresh    bool            // the first delivery of the link
	stale    bool            // a topic was recreated, and the link keeps to the old one
	ended    bool
}

var _ ring.LateRings = (*delivery)(nil)

// produce gives the records of all rings to the client.
func (d *delivery) produce(rings []clock.Ring) {
	for i := range rings {
		topic, none := d.link.target.topicOf(&rings[i])
		if topic == nil {
			d.outcomes[i] = none
			continue
		}
		d.outcomes[i], d.records[i] = clock.Outcome{Kind: clock.Awaited}, recordOf(&rings[i], topic)
		d.left++
		d.link.client.TryProduce(context.Background(), d.records[i],
			func(_ *kgo.Record, err error) { d.replies <- reply{ring: i, err: err} })
	}
}

// gatherTime is the longest wait for the partitions of all records. A topic that the link has not used before is looked
// up in this time.
const gatherTime = 100 * time.Millisecond

// gather waits until the client knows the partition of each record. So the records of all applications go to a leader
// in one request. The first request of a link must have its reply before a second one is sent: a slow partition in it
// would keep back the others.
func (d *delivery) gather(ctx context.Context) {
	limit := time.NewTimer(gatherTime)
	defer limit.Stop()
	for d.link.gate.placed() < d.left {
		select {
		case r := <-d.replies:
			d.note(r)
		case <-d.link.gate.placings:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// await waits for replies until the reply limit. At the write limit it resolves the rings that were not sent.
func (d *delivery) await(ctx context.Context) {
	writeLimit := time.NewTimer(time.Until(d.limits.WriteBy))
	defer writeLimit.Stop()
	replyLimit := time.NewTimer(time.Until(d.limits.ReplyBy))
	defer replyLimit.Stop()
	for d.awaited() > 0 {
		select {
		case r := <-d.replies:
			d.note(r)
		case <-writeLimit.C:
			d.link.gate.shut()
			d.takeReplies()
			d.resolveUnsent()
		case <-d.link.gate.refusals:
			d.takeReplies()
			d.resolveUnsent()
		case <-replyLimit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// takeReplies notes the replies that have come.
func (d *delivery) takeReplies() {
	for {
		select {
		case r := <-d.replies:
			d.note(r)
		default:
			return
		}
	}
}

func (d *delivery) note(r reply) {
	d.left--
	if d.outcomes[r.ring].Kind != clock.Awaited {
		return // resolved before
	}
	record := d.records[r.ring]
	o := outcomeOf(r.err, record.Topic, d.link.gate.wasSent(record))
	if errors.Is(r.err, kerr.UnknownTopicID) {
		d.stale = true
		if !d.fresh { // another link finds out whether there is such a topic
			o.Kind = clock.Unsent
		}
	}
	d.outcomes[r.ring] = o
	if o.Kind == clock.Confirmed && d.limits.OnConfirmed != nil && d.places == nil {
		d.limits.OnConfirmed(r.ring)
	}
}

// resolveUnsent gives the rings that can get no reply any more their outcomes. A ring of which no byte was sent is
// untaken if brokers work, because then its own partition is at fault. While requests may still be written, nothing is
// resolved.
func (d *delivery) resolveUnsent() {
	if d.link.gate.mayWrite() {
		return
	}
	for i, o := range d.outcomes {
		switch g := d.link.gate; {
		case o.Kind != clock.Awaited:
		case !g.wasSent(d.records[i]):
			d.outcomes[i] = d.unsent()
		case g.wasRefused(d.records[i]):
			d.outcomes[i] = clock.Outcome{Kind: clock.Doubtful,
				Reason: "no confirm: the brokers did not take the ring before the time to write was over"}
		}
	}
}

func (d *delivery) unsent() clock.Outcome {
	if err := d.link.target.Usable(); err != nil {
		return clock.Outcome{Kind: clock.Unsent, Reason: cut(err)}
	}
	return clock.Outcome{Kind: clock.Untaken, Reason: "no leader of the partition took the ring in time"}
}

func (d *delivery) awaited() (n int) {
	for i := range d.outcomes {
		if d.outcomes[i].Kind == clock.Awaited {
			n++
		}
	}
	return n
}

func (d *delivery) setAll(o clock.Outcome) {
	for i := range d.outcomes {
		d.outcomes[i] = o
	}
}

// Outcomes returns the outcomes that are known now; see ring.LateRings.
func (d *delivery) Outcomes() []clock.Outcome {
	if !d.ended {
		d.takeReplies()
		d.resolveUnsent()
		if time.Now().After(d.limits.WriteBy.Add(d.acks + replyOverhead)) {
			d.giveUp("the connection ended without a confirm")
		}
	}
	return d.outcomes
}

// Stuck returns false: a ring without a reply is given up when its request has timed out, and that is an outcome.
func (d *delivery) Stuck() bool { return false }

// End closes the link. Rings without a reply are in doubt; see ring.LateRings.
func (d *delivery) End() {
	if d.ended {
		return
	}
	d.takeReplies()
	d.resolveUnsent()
	d.giveUp("the wait for the confirm was ended")
	d.ended = true
	d.link.end()
	if d.places != nil {
		<-d.places
	}
}

// giveUp puts the rings without a reply in doubt.
func (d *delivery) giveUp(reason string) {
	for i := range d.outcomes {
		if d.outcomes[i].Kind == clock.Awaited {
			d.outcomes[i] = clock.Outcome{Kind: clock.Doubtful, Reason: reason}
		}
	}
}
