package clock

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// besideOps is how many ops must wait before a group is written beside another. Fewer join the next group: a transaction costs as
// much as writing some dozens of rows, so that it is cheaper for all to wait for the one under way than to write by halves.
const besideOps = 32

// besideAfter is how long a group may take before another is written beside it, however little waits: its server may not answer at all.
const besideAfter = 100 * time.Millisecond

// writeQueue is what waits to be written, in order of arrival, and what is known of the keys in work. Lanes take groups from it.
type writeQueue struct {
	w    *Writer
	wake chan struct{} // capacity 1: a lane may find a group
	wait sync.WaitGroup

	mu      sync.Mutex
	queue   []*Pending
	passed  int                // ops at the head of the queue whose keys are being written
	groups  int                // being written, for less than besideAfter
	writing map[Key]struct{}   // their keys
	held    map[Key][]*Pending // keys waited for, with the ops that follow on them
	closed  bool
}

func newWriteQueue(w *Writer) *writeQueue {
	return &writeQueue{w: w, wake: make(chan struct{}, 1), writing: map[Key]struct{}{}, held: map[Key][]*Pending{}}
}

func (q *writeQueue) enqueue(p *Pending) {
	q.mu.Lock()
	closed := q.closed
	if !closed {
		q.put(p)
	}
	q.mu.Unlock()
	if closed {
		q.w.refuse(p, CodeUnavailable, "the node is stopping; repeat the request")
	}
}

// put appends p behind what is queued on its key; the caller holds mu.
func (q *writeQueue) put(p *Pending) {
	key := p.op.Key()
	if followers, isHeld := q.held[key]; isHeld {
		p.held = time.Now()
		q.held[key] = append(followers, p)
		return
	}
	q.queue = append(q.queue, p)
	q.signal()
}

// signal wakes a lane if there is a group for it; the caller holds mu.
func (q *writeQueue) signal() {
	if !q.ready() {
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// ready reports whether a group may begin; the caller holds mu.
func (q *writeQueue) ready() bool {
	waiting := len(q.queue) - q.passed
	return waiting > 0 && (q.groups == 0 || waiting >= min(besideOps, q.w.cfg.GroupOps))
}

// run is a lane: it writes group after group until ctx ends.
func (q *writeQueue) run(ctx context.Context) {
	work := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		runtime.Gosched() // requests that are ready to submit join the group; where none is, this costs nothing
		if group := q.take(); len(group) > 0 {
			q.writeGroup(work, group)
			continue
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
}

// drain refuses what comes from now on and answers what is there. No lane runs any more.
func (q *writeQueue) drain(work context.Context) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	for group := q.take(); len(group) > 0; group = q.take() {
		q.writeGroup(work, group)
	}
	q.wait.Wait()
}

// take removes the next group from the queue: no key that is being written and none twice, in order of arrival on each key,
// within the group's bounds.
func (q *writeQueue) take() []*Pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.ready() {
		return nil
	}
	group := make([]*Pending, 0, min(len(q.queue)-q.passed, q.w.cfg.GroupOps))
	bytes, rest, at := 0, q.queue[:q.passed], q.passed
	for ; at < len(q.queue); at++ {
		p := q.queue[at]
		if len(group) == q.w.cfg.GroupOps || len(group) > 0 && bytes+p.size > q.w.cfg.GroupBytes {
			break
		}
		key := p.op.Key()
		if _, now := q.writing[key]; now {
			rest = append(rest, p)
			continue
		}
		q.writing[key] = struct{}{}
		bytes += p.size
		group = append(group, p)
	}
	q.passed = len(rest)
	rest = append(rest, q.queue[at:]...)
	clear(q.queue[len(rest):])
	q.queue = rest
	if len(group) > 0 {
		q.groups++
	}
	return group
}

// late waits no longer for a group that is being written.
func (q *writeQueue) late() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.groups--
	q.signal()
}

// done gives the group's keys free. The lane that wrote it looks for the next group itself.
func (q *writeQueue) done(group []*Pending, late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range group {
		delete(q.writing, p.op.Key())
	}
	if !late {
		q.groups--
	}
	q.passed = 0
}

// writeGroup writes the group and answers each, but for those whose row is held.
func (q *writeQueue) writeGroup(ctx context.Context, group []*Pending) {
	ops := make([]Op, len(group))
	for i, p := range group {
		ops[i] = p.op
	}
	timer := time.AfterFunc(besideAfter, q.late)
	ds := q.w.write(ctx, ops, 0)
	now := time.Now()
	for i := len(ds) - 1; i >= 0; i-- { // the first one last: who waits for many in order then finds all of them answered
		if ds[i].Verdict == Wait {
			q.hold(ctx, group[i])
			continue
		}
		q.w.finish(group[i], &ds[i], now)
	}
	q.done(group, !timer.Stop())
}

// hold gives p's key a lane of its own, where it may wait.
func (q *writeQueue) hold(ctx context.Context, p *Pending) {
	p.held = time.Now()
	q.setHeld(p.op.Key(), p.held)
	q.wait.Go(func() { q.serveHeld(ctx, p) })
}

// setHeld marks the key as held and moves what is queued on it, in order.
func (q *writeQueue) setHeld(key Key, since time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.passed = 0
	var followers []*Pending
	q.queue = slices.DeleteFunc(q.queue, func(p *Pending) bool {
		if p.op.Key() != key {
			return false
		}
		p.held = since
		followers = append(followers, p)
		return true
	})
	q.held[key] = followers
}

// serveHeld writes p and what follows on its key, one by one, and gives the key back to the queue.
func (q *writeQueue) serveHeld(ctx context.Context, p *Pending) {
	key := p.op.Key()
	for {
		d := q.w.writeHeld(ctx, p)
		q.w.finish(p, &d, time.Now())
		q.mu.Lock()
		followers := q.held[key]
		if len(followers) == 0 {
			delete(q.held, key)
			q.mu.Unlock()
			return
		}
		p, q.held[key] = followers[0], followers[1:]
		q.mu.Unlock()
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
