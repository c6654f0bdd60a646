package clock

import (
	"context"
	"time"
)

// Pending is the answer to a submitted op, to come.
type Pending struct {
	op   Op
	size int
	done chan struct{} // closed when decision is set

	submitted time.Time
	held      time.Time // since when it has waited for its row, or behind another that does

	decision Decision
}

func newPending(op Op) *Pending {
	return &Pending{op: op, size: op.Size(), done: make(chan struct{})}
}

// Answered returns a Pending that has its answer: of who decides at once.
func Answered(op Op, d Decision) *Pending {
	p := newPending(op)
	p.answer(&d)
	return p
}

// failed returns a Pending that is already answered with err.
func failed(op Op, err error) *Pending { return Answered(op, Decision{Verdict: Refuse, Err: err}) }

func (p *Pending) answer(d *Decision) {
	p.decision = *d // a copy: the decisions of a group must not live as long as the last of its waiters
	close(p.done)
}

// Done is closed when the answer is there.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait returns the decision once it is committed, or an error: the decision's own, or ErrUnconfirmed when ctx ends before
// the answer: the op may still be applied. The decision is shared and must not be changed.
func (p *Pending) Wait(ctx context.Context) (*Decision, error) {
	if !p.answered() {
		select {
		case <-p.done:
		case <-ctx.Done():
		}
	}
	if !p.answered() { // if it has been meanwhile, the answer is worth more
		return new(Decision), Unconfirmed(ctx.Err())
	}
	return &p.decision, p.decision.Err
}

func (p *Pending) answered() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}
