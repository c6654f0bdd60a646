package clock

import (
	"context"
	"time"
)

// Pending is the answer to a submitted op, to come.
type Pending struct {
	op   Op
	size int
	done chan struct{} // closed when decision and err are set

	submitted time.Time
	held      time.Time // since when it has waited for its row, or behind another that does

	decision Decision
	err      error
}

func newPending(op Op) *Pending {
	return &Pending{op: op, size: op.Size(), done: make(chan struct{})}
}

// failed returns a Pending that is already answered with err.
func failed(op Op, err error) *Pending {
	p := newPending(op)
	p.fail(err)
	return p
}

func (p *Pending) fail(err error) { p.answer(Decision{Verdict: Refuse, Err: err}) }

func (p *Pending) answer(d Decision) {
	p.decision, p.err = d, d.Err
	close(p.done)
}

// Done is closed when the answer is there.
func (p *Pending) Done() <-chan struct{} { return p.done }

// Wait returns the decision once it is committed, or an error: the decision's own, or ErrUnconfirmed when ctx ends before
// the answer: the op may still be applied.
func (p *Pending) Wait(ctx context.Context) (Decision, error) {
	select {
	case <-p.done:
		return p.decision, p.err
	case <-ctx.Done():
	}
	select {
	case <-p.done: // both: the answer is worth more
		return p.decision, p.err
	default:
		return Decision{}, Unconfirmed(ctx.Err())
	}
}
