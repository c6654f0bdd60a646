package clock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// writeLane writes the ops of its share of the keys, one transaction at a time.
type writeLane struct {
	w    *Writer
	wake chan struct{} // capacity 1: the queue is not empty
	wait sync.WaitGroup

	mu     sync.Mutex
	queue  []*Pending
	held   map[Key][]*Pending // keys waited for, with the ops that follow on them
	closed bool
}

func (l *writeLane) enqueue(p *Pending) {
	l.mu.Lock()
	closed := l.closed
	if !closed {
		l.put(p)
	}
	l.mu.Unlock()
	if closed {
		l.w.refuse(p, CodeUnavailable, "the node is stopping; repeat the request")
	}
}

// put appends p behind what is queued on its key; the caller holds mu.
func (l *writeLane) put(p *Pending) {
	key := p.op.Key()
	if followers, isHeld := l.held[key]; isHeld {
		p.held = time.Now()
		l.held[key] = append(followers, p)
		return
	}
	l.queue = append(l.queue, p)
	l.signal()
}

func (l *writeLane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run writes group after group until ctx ends and nothing is queued or waited for.
func (l *writeLane) run(ctx context.Context) {
	work := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		if group := l.take(); len(group) > 0 {
			l.writeGroup(work, group)
			continue
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
	}
	l.drain(work)
}

// drain refuses what comes from now on and answers what is there.
func (l *writeLane) drain(work context.Context) {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	for {
		for group := l.take(); len(group) > 0; group = l.take() {
			l.writeGroup(work, group)
		}
		l.wait.Wait()
		if l.idle() {
			return
		}
	}
}

func (l *writeLane) idle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) == 0
}

// take removes the next group from the queue: no key twice, in order of arrival on each key, within the group's bounds.
func (l *writeLane) take() []*Pending {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	group := make([]*Pending, 0, min(len(l.queue), l.w.cfg.GroupOps))
	keys := make(map[Key]struct{}, cap(group))
	bytes, rest := 0, l.queue[:0]
	for i, p := range l.queue {
		if len(group) == l.w.cfg.GroupOps || len(group) > 0 && bytes+p.size > l.w.cfg.GroupBytes {
			rest = append(rest, l.queue[i:]...)
			break
		}
		key := p.op.Key()
		if _, twice := keys[key]; twice {
			rest = append(rest, p)
			continue
		}
		keys[key] = struct{}{}
		bytes += p.size
		group = append(group, p)
	}
	clear(l.queue[len(rest):])
	l.queue = rest
	return group
}

// writeGroup writes the group and answers each, but for those whose row is held.
func (l *writeLane) writeGroup(ctx context.Context, group []*Pending) {
	ops := make([]Op, len(group))
	for i, p := range group {
		ops[i] = p.op
	}
	for i, d := range l.w.write(ctx, ops, 0) {
		if d.Verdict == Wait {
			l.hold(ctx, group[i])
			continue
		}
		l.w.finish(group[i], d)
	}
}

// hold gives p's key a lane of its own, where it may wait.
func (l *writeLane) hold(ctx context.Context, p *Pending) {
	p.held = time.Now()
	l.setHeld(p.op.Key(), p.held)
	l.wait.Go(func() { l.serveHeld(ctx, p) })
}

// setHeld marks the key as held and moves what is queued on it, in order.
func (l *writeLane) setHeld(key Key, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var followers []*Pending
	l.queue = slices.DeleteFunc(l.queue, func(p *Pending) bool {
		if p.op.Key() != key {
			return false
		}
		p.held = since
		followers = append(followers, p)
		return true
	})
	l.held[key] = followers
}

// serveHeld writes p and what follows on its key, one by one, and gives the key back to the lane.
func (l *writeLane) serveHeld(ctx context.Context, p *Pending) {
	key := p.op.Key()
	for {
		l.w.finish(p, l.w.writeHeld(ctx, p))
		l.mu.Lock()
		followers := l.held[key]
		if len(followers) == 0 {
			delete(l.held, key)
			l.mu.Unlock()
			l.signal()
			return
		}
		p, l.held[key] = followers[0], followers[1:]
		l.mu.Unlock()
	}
}

// writeHeld writes one op, waiting for its row: for a lock at most HeldWait, for a two-phase claim at most until its end.
// Both count from when p began to wait, behind others too, so that a long queue on one key is not answered one HeldWait
// after the other.
func (w *Writer) writeHeld(ctx context.Context, p *Pending) Decision {
	const firstPoll, lastPoll = 5 * time.Millisecond, 100 * time.Millisecond
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		w.held <- struct{}{}
		d := w.write(ctx, []Op{p.op}, max(0, w.cfg.HeldWait-time.Since(p.held)))[0]
		<-w.held
		if d.Verdict != Wait {
			return d
		}
		left := w.heldLeft(p, &d.Alarm)
		if left <= 0 {
			return Decision{Verdict: Refuse, Alarm: d.Alarm, Err: p.op.Held(&d.Alarm)}
		}
		time.Sleep(min(poll, left))
	}
}

// heldLeft returns how long p may still wait for its row.
func (w *Writer) heldLeft(p *Pending, row *Alarm) time.Duration {
	waited := time.Since(p.held)
	if !row.Claimed() {
		return w.cfg.HeldWait - waited
	}
	return min(claimWait-waited, w.time.Until(row.NextTryTime))
}

// claimWait is how long an op waits for a two-phase claim at most. The rest of its caller's Patience is for the queue.
const claimWait = Patience - 5*time.Second
