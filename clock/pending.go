package clock

import (
	"context"
	"errors"
	"time"
)

// Pending is a submitted op. It has the decision once Done is closed.
type Pending struct {
	op   Op
	key  Key             // the op's key
	ctx  context.Context //nolint:containedctx // it lasts as long as the caller waits
	size int
	done chan struct{} // closed when decision is set

	submitted   time.Time
	readySince  time.Time // time when a group could first take it; while it waits for an earlier op on its key: submitted
	readyAhead  int       // ready ops of its application that were ahead of it at that time
	lockedSince time.Time // time when its wait for a locked row began, or its wait behind such an op; zero: no wait

	writer *Writer         // to which it was submitted; nil: to none
	ended  func(*Decision) // see Admission; nil: nobody asks

	// position in the queue of the Writer, guarded by Writer.mu
	isQueued               bool // in a list of its application: no transaction writes it
	app                    *appQueue
	keyQueue               *keyQueue
	arrival                uint64
	prevInList, nextInList *Pending // neighbours in a list of its application
	prevOnKey, nextOnKey   *Pending // neighbours on the same key; nil at the ends

	decision *Decision // nil before Done
}

// newPending returns the Pending of a caller that waits as long as ctx lasts.
func newPending(ctx context.Context, op Op) *Pending {
	return &Pending{op: op, key: op.Key(), ctx: ctx, size: op.Size(), done: make(chan struct{})}
}

// Decided returns a Pending that has its decision already.
func Decided(op Op, d Decision) *Pending {
	p := newPending(context.Background(), op)
	p.decide(&d)
	return p
}

// refused returns a Pending that is already refused with err.
func refused(op Op, err error) *Pending { return Decided(op, Decision{Verdict: Refuse, Err: err}) }

func (p *Pending) decide(d *Decision) {
	own := *d // a copy: one waiter must not keep the decisions of the whole group in memory
	p.decision = &own
	if p.ended != nil {
		p.ended(d)
		p.ended = nil
	}
	if p.op.WithoutPayload {
		p.op = Op{}
		p.decision.dropPayload()
	}
	close(p.done)
}

// halfClosedWait is how long an op stays in the queue after its caller's connection seems closed. A client that has
// closed only its sending half looks like a client that has left, but still reads the response.
const halfClosedWait = time.Second

// abandoned reports whether the caller waits no longer: its deadline has passed, or it has left and the op has been
// queued for halfClosedWait.
func (p *Pending) abandoned(now time.Time) bool {
	return p.ctx.Err() != nil && p.untilAbandoned(now) <= 0
}

// untilAbandoned returns how long p, whose ctx has ended, may still be written.
func (p *Pending) untilAbandoned(now time.Time) time.Duration {
	if errors.Is(p.ctx.Err(), context.DeadlineExceeded) {
		return 0
	}
	return halfClosedWait - now.Sub(p.submitted)
}

// Withdraw takes the op back if it is still queued. Then nothing was changed, and the decision says so. An op that is
// being written, or waits for its row, stays.
func (p *Pending) Withdraw() {
	if p.writer != nil && p.writer.dequeue(p) {
		p.writer.drop(p, DropAbandoned)
	}
}

// Done returns a channel that is closed when the decision is known.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait returns the decision once it is committed. Its error is the decision's error, or ErrUnconfirmed if ctx ends
// first: then the op may still be applied. The decision is shared and must not be changed.
func (p *Pending) Wait(ctx context.Context) (*Decision, error) {
	if !p.decided() {
		select {
		case <-p.done:
		case <-ctx.Done():
		}
	}
	if !p.decided() { // a decision that is known by now is worth more than the end of ctx
		return new(Decision), Unconfirmed(ctx.Err())
	}
	return p.decision, p.decision.Err
}

func (p *Pending) decided() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// RequestTimeout is how long the decision of a submitted op may take: the group before it, its own group and the wait
// for a locked row.
const RequestTimeout = 15 * time.Second
