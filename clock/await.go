package clock

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Await waits for the decision, at most until the deadline of ctx, and at most RequestTimeout. Then it withdraws the
// op. It goes on waiting when ctx is cancelled, because a client that has closed its sending half still reads.
func (p *Pending) Await(ctx context.Context) (*Decision, error) {
	if p.decided() {
		return p.Known()
	}
	timer := time.NewTimer(untilDeadline(ctx)) // costs less than a context
	defer timer.Stop()
	select {
	case <-p.Done():
	case <-timer.C:
		p.Withdraw()
	}
	return p.Known()
}

// Known returns the decision if it is known. Otherwise the error is ErrUnconfirmed.
func (p *Pending) Known() (*Decision, error) { return p.Wait(pastDeadline) }

// pastDeadline is a context whose deadline has passed. Pending.Wait returns at once with it.
var pastDeadline, _ = context.WithDeadline(context.Background(), time.Time{})

// untilDeadline returns the time until the deadline of ctx, at most RequestTimeout.
func untilDeadline(ctx context.Context) time.Duration {
	if end, given := ctx.Deadline(); given {
		return min(time.Until(end), RequestTimeout)
	}
	return RequestTimeout
}

// AwaitAll waits until all ops are decided, as long as Await waits. Then it withdraws the ops, the last one first, so
// that none is written after an earlier one on its key was withdrawn. It passes over nil.
func AwaitAll(ctx context.Context, all []*Pending) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), untilDeadline(ctx))
	defer cancel()
	for i, p := range all {
		if p == nil {
			continue
		}
		select {
		case <-p.Done():
		case <-ctx.Done():
			for _, late := range slices.Backward(all[i:]) {
				if late != nil {
					late.Withdraw()
				}
			}
			return
		}
	}
}

// overloadPatience is the time that SubmitPatiently waits for a place in the queue of writes.
const overloadPatience = 5 * time.Second

// SubmitPatiently submits an op. While the op is refused at once with a code in codes, it submits the op again, until
// overloadPatience or ctx ends.
func SubmitPatiently(ctx context.Context, submit func() *Pending, codes ...string) *Pending {
	const firstWait, longestWait = 5 * time.Millisecond, 200 * time.Millisecond
	begun := time.Now()
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		p := submit()
		if !slices.Contains(codes, p.code()) || time.Since(begun) > overloadPatience {
			return p
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return p
		}
	}
}

// code returns the code of the decision's error, "" if p is not decided yet or has no such error.
func (p *Pending) code() string {
	if !p.decided() {
		return ""
	}
	if e, ok := errors.AsType[*Error](p.decision.Err); ok {
		return e.Code
	}
	return ""
}
