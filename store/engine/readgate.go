package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

// Limits of a wait: how long a read waits for a place, and how many reads may wait for each place.
const (
	readPatience  = 2 * time.Second
	waitersPerRun = 16
)

// ReadLimit is the time limit of a read's statement at the server. The read's own context ends it earlier, unless the
// node dies.
const ReadLimit = clock.RequestTimeout + time.Second

// ReadGate limits how many reads of requests run at once. Lists and single reads have separate places, so a long list
// does not delay the read of one alarm.
type ReadGate struct {
	lists, singles places
}

// NewReadGate returns a gate for a pool of conns connections, at least 2. Lists get half of them, single reads the
// others.
func NewReadGate(conns int) *ReadGate {
	return &ReadGate{lists: newPlaces(conns / 2), singles: newPlaces(conns - conns/2)}
}

// AcquireList waits for a place for a list. The caller must call release once the server runs no statement of the list
// any more. The error is clock.ErrUnavailable: too many lists wait, or ctx has ended.
func (g *ReadGate) AcquireList(ctx context.Context) (release func(), err error) {
	return g.lists.acquire(ctx)
}

// AcquireSingle is AcquireList for the read of one alarm.
func (g *ReadGate) AcquireSingle(ctx context.Context) (release func(), err error) {
	return g.singles.acquire(ctx)
}

// places limits how many reads of one kind run and wait.
type places struct {
	free    chan struct{}
	waiting *atomic.Int64
}

func newPlaces(n int) places {
	p := places{free: make(chan struct{}, n), waiting: new(atomic.Int64)}
	for range n {
		p.free <- struct{}{}
	}
	return p
}

func (p places) acquire(ctx context.Context) (release func(), err error) {
	select {
	case <-p.free:
		return p.release, nil
	default:
	}
	defer p.waiting.Add(-1)
	if p.waiting.Add(1) > int64(waitersPerRun*cap(p.free)) {
		return nil, tooManyReads()
	}
	patience := time.NewTimer(readPatience)
	defer patience.Stop()
	select {
	case <-p.free:
		return p.release, nil
	case <-patience.C:
		return nil, tooManyReads()
	case <-ctx.Done():
		return nil, clock.Unavailable(ctx.Err())
	}
}

func (p places) release() { p.free <- struct{}{} }

func tooManyReads() error {
	return &clock.Error{
		Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
		Detail: "too many reads at once; repeat later",
	}
}
