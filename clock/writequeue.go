package clock

import (
	"container/heap"
	"context"
	"runtime"
	"sync"
	"time"
)

// secondGroupOps is how many ops must be ready before a second group is written beside another. Fewer ops wait for the transaction
// that is being written: a transaction costs as much as some dozens of rows, so two small transactions cost more than the wait.
const secondGroupOps = 32

// secondGroupAfter is how long a group may take before a second group is written beside it, with however few ops. The first group's
// connection may never get a reply.
const secondGroupAfter = 100 * time.Millisecond

// writeQueue holds the ops that wait for a transaction. Each application has a queue, and applications take turns. Each key has a
// queue too, because its ops are written one by one. The writeQueue has bounds for its bytes in all, the bytes of one application and
// the ops on one key. The committers take groups of ops from it; WriterConfig.Committers are running.
type writeQueue struct {
	writer    *Writer
	wake      chan struct{}  // capacity 1; wakes one committer: a group may begin
	lockedOps sync.WaitGroup // one goroutine for each locked key

	mu          sync.Mutex
	apps        map[string]*appQueue // applications with ops, by name
	turns       []*appQueue          // applications with ready ops, in the order of their turns
	largest     byQueuedBytes        // the same applications as apps
	keys        map[Key]*keyQueue    // keys with ops
	spare       []*keyQueue          // unused key queues, kept for new keys
	arrivals    uint64               // ops that ever arrived
	ops         int                  // ops queued and in transactions
	bytes       int                  // bytes of these ops
	ready       int                  // ops that a group may take
	youngGroups int                  // groups whose transaction is younger than secondGroupAfter
	closed      bool                 // new ops are refused
}

func newWriteQueue(w *Writer) *writeQueue {
	return &writeQueue{writer: w, wake: make(chan struct{}, 1), apps: map[string]*appQueue{}, keys: map[Key]*keyQueue{}}
}

// size returns the number of ops that are queued or in transactions, and their bytes.
func (q *writeQueue) size() (ops, bytes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ops, q.bytes
}

// enqueue queues p, or returns the reason against it. pushedOut are the ops that had to make room.
func (q *writeQueue) enqueue(p *Pending) (pushedOut []*Pending, refusal DropReason) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, DropStopping
	}
	queue := q.keys[p.key]
	if queue != nil && queue.ops >= q.writer.cfg.KeyOps {
		return nil, DropKeyFull
	}
	app := q.app(p.key.Application)
	pushedOut, fits := q.makeRoom(app, p.size)
	if !fits {
		q.forgetIfEmpty(app)
		return pushedOut, DropQueueFull
	}
	q.put(p, app)
	q.signal()
	return pushedOut, ""
}

// app returns the application's queue and creates it if necessary.
func (q *writeQueue) app(name string) *appQueue {
	app := q.apps[name]
	if app == nil {
		app = &appQueue{name: name}
		q.apps[name] = app
		heap.Push(&q.largest, app)
	}
	return app
}

func (q *writeQueue) forgetIfEmpty(app *appQueue) {
	if app.bytes == 0 {
		delete(q.apps, app.name)
		heap.Remove(&q.largest, app.heapIndex)
	}
}

// makeRoom reports whether the queue has room for size more bytes of the application. If the queue is full, the application with the
// most queued bytes loses ops, the newest first. One application alone never fills the queue, so there is room for others without
// pushing ops out.
func (q *writeQueue) makeRoom(app *appQueue, size int) (pushedOut []*Pending, fits bool) {
	if app.bytes+size > q.writer.cfg.QueueBytes/4*3 {
		return nil, false
	}
	for q.bytes+size > q.writer.cfg.QueueBytes {
		most := q.largest[0]
		if most.queued <= app.queued+size {
			return pushedOut, false
		}
		p := most.newest()
		q.removeFromLists(p)
		q.removeFromKey(p)
		pushedOut = append(pushedOut, p)
	}
	return pushedOut, true
}

// put appends p to the queue of its application and to the queue of its key.
func (q *writeQueue) put(p *Pending, app *appQueue) {
	q.arrivals++
	p.app, p.arrival = app, q.arrivals
	queue := q.keys[p.key] // looked up again, because makeRoom may have removed it
	if queue == nil {
		queue = q.newKeyQueue()
		q.keys[p.key] = queue
	}
	p.keyQueue, p.prevOnKey, p.nextOnKey = queue, queue.last, nil
	if queue.last != nil {
		queue.last.nextOnKey = p
	} else {
		queue.first = p
	}
	queue.last = p
	queue.ops++
	if queue.locked {
		p.lockedSince = p.submitted
	}
	app.bytes += p.size
	app.queued += p.size
	heap.Fix(&q.largest, app.heapIndex)
	q.ops++
	q.bytes += p.size
	if queue.first != p {
		app.behind.pushBack(p)
		return
	}
	app.ready.pushBack(p)
	q.countReady(app)
}

func (q *writeQueue) newKeyQueue() *keyQueue {
	if n := len(q.spare); n > 0 {
		queue := q.spare[n-1]
		q.spare = q.spare[:n-1]
		return queue
	}
	return new(keyQueue)
}

// countReady counts an op that was added to the application's ready ops, and gives the application a turn if it has none.
func (q *writeQueue) countReady(app *appQueue) {
	q.ready++
	if !app.hasTurn {
		app.hasTurn, app.creditBytes = true, turnBytes
		q.turns = append(q.turns, app)
	}
}

// removeFromLists takes p out of its application's lists. p stays in the queue of its key. An application that has no ready ops left
// keeps its turn until take reaches it.
func (q *writeQueue) removeFromLists(p *Pending) {
	if p.keyQueue.first == p {
		p.app.ready.remove(p)
		q.ready--
	} else {
		p.app.behind.remove(p)
	}
	p.app.queued -= p.size
	heap.Fix(&q.largest, p.app.heapIndex)
}

// removeFromKey takes p, which is in no list any more, out of the queue of its key and out of all counts. The next op on the key
// becomes ready.
func (q *writeQueue) removeFromKey(p *Pending) {
	queue, app, first := p.keyQueue, p.app, p.keyQueue.first == p
	if p.prevOnKey != nil {
		p.prevOnKey.nextOnKey = p.nextOnKey
	}
	if p.nextOnKey != nil {
		p.nextOnKey.prevOnKey = p.prevOnKey
	}
	if first {
		queue.first, queue.locked = p.nextOnKey, false
	}
	if queue.last == p {
		queue.last = p.prevOnKey
	}
	queue.ops--
	p.keyQueue, p.prevOnKey, p.nextOnKey = nil, nil, nil
	q.ops--
	q.bytes -= p.size
	app.bytes -= p.size
	switch {
	case queue.first == nil:
		delete(q.keys, p.key)
		if len(q.spare) < maxSpareKeyQueues {
			q.spare = append(q.spare, queue)
		}
		q.forgetIfEmpty(app)
	case first:
		app.behind.remove(queue.first)
		app.ready.pushFront(queue.first) // at the front, because it has waited longer than most ops
		q.countReady(app)
	}
}

// maxSpareKeyQueues is the most key queues in writeQueue.spare.
const maxSpareKeyQueues = 4096

// signal wakes a committer if a group may begin. The caller holds mu.
func (q *writeQueue) signal() {
	if !q.mayBegin() {
		return
	}
	Signal(q.wake)
}

// mayBegin reports whether a group may begin. The caller holds mu.
func (q *writeQueue) mayBegin() bool {
	return q.ready > 0 && (q.youngGroups == 0 || q.ready >= min(secondGroupOps, q.writer.cfg.GroupOps))
}

// run is a committer: it writes group after group until ctx ends.
func (q *writeQueue) run(ctx context.Context) {
	work := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		runtime.Gosched() // lets requests that are about to submit join the group; costs nothing if there are none
		if q.writeNext(work) {
			continue
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
		}
	}
}

// drain refuses new ops and writes the queued ops. The committers have ended.
func (q *writeQueue) drain(work context.Context) {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	for ops, _ := q.size(); ops > 0; ops, _ = q.size() {
		for q.writeNext(work) {
		}
		q.lockedOps.Wait() // afterwards the next ops on the locked keys are ready
	}
}

// writeNext writes the next group and reports whether there was one.
func (q *writeQueue) writeNext(ctx context.Context) bool {
	group, abandoned := q.take()
	for _, p := range abandoned {
		q.writer.drop(p, DropAbandoned)
	}
	if len(group) > 0 {
		q.writeGroup(ctx, group)
	}
	return len(group)+len(abandoned) > 0
}

// take removes the next group from the queue, within the bounds of a group. Applications take turns, and only ops that are first on
// their keys may join. Ops whose callers have left do not join; take removes them too and returns them as abandoned.
func (q *writeQueue) take() (group, abandoned []*Pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.mayBegin() {
		return nil, nil
	}
	group = make([]*Pending, 0, min(q.ready, q.writer.cfg.GroupOps))
	now, bytes := time.Now(), 0
	for len(q.turns) > 0 {
		app := q.turns[0]
		p := app.ready.first
		switch {
		case p == nil:
			app.hasTurn = false
			q.turns[0] = nil
			q.turns = q.turns[1:]
		case p.abandoned(now):
			q.removeFromLists(p)
			q.removeFromKey(p)
			abandoned = append(abandoned, p)
		case len(group) == q.writer.cfg.GroupOps, len(group) > 0 && bytes+p.size > q.writer.cfg.GroupBytes:
			q.youngGroups++
			return group, abandoned
		case p.cost() > app.creditBytes:
			app.creditBytes += turnBytes
			if len(q.turns) > 1 {
				q.turns = append(q.turns[1:], app)
			}
		default:
			app.creditBytes -= p.cost()
			bytes += p.size
			q.removeFromLists(p)
			group = append(group, p)
		}
	}
	if len(group) > 0 {
		q.youngGroups++
	}
	return group, abandoned
}

// groupIsSlow is called when a group's transaction has taken secondGroupAfter. From then on another group may begin beside it.
func (q *writeQueue) groupIsSlow() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.youngGroups--
	q.signal()
}

// writeGroup writes the group and finishes each op that is decided. The other ops wait for their locked row or for the next group.
func (q *writeQueue) writeGroup(ctx context.Context, group []*Pending) {
	ops := make([]Op, len(group))
	for i, p := range group {
		ops[i] = p.op
	}
	timer := time.AfterFunc(secondGroupAfter, q.groupIsSlow)
	decisions := q.writer.write(ctx, ops, 0)
	now := time.Now()
	q.groupWritten(group, decisions, !timer.Stop())
	for i := len(decisions) - 1; i >= 0; i-- { // the first op last: a caller that waits for many ops in order then finds them all decided
		switch decisions[i].Verdict {
		case Postpone:
		case Wait:
			q.lockedOps.Go(func() { q.serveLockedKey(ctx, group[i]) })
		default:
			q.writer.finish(group[i], &decisions[i], now)
		}
	}
}

// groupWritten ends a group. Ops that are decided leave their keys, postponed ops are ready again, and waiting ops lock their keys.
// It does not signal, because the committer that wrote the group looks for the next group itself.
func (q *writeQueue) groupWritten(group []*Pending, decisions []Decision, late bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !late {
		q.youngGroups--
	}
	for i := len(group) - 1; i >= 0; i-- { // backwards, so that the next ops on the keys become ready in the order of the group
		switch decisions[i].Verdict {
		case Postpone:
			q.requeue(group[i])
		case Wait:
			q.lockKey(group[i])
		default:
			q.removeFromKey(group[i])
		}
	}
}

// requeue makes p ready again, before the other ops of its application. A group had taken p, and p is still the first on its key.
func (q *writeQueue) requeue(p *Pending) {
	p.app.queued += p.size
	heap.Fix(&q.largest, p.app.heapIndex)
	p.app.ready.pushFront(p)
	q.countReady(p.app)
}

// lockKey marks the key of p as locked. From now on p and the ops behind it wait for the row.
func (q *writeQueue) lockKey(p *Pending) {
	p.keyQueue.locked = true
	now := time.Now()
	for ; p != nil; p = p.nextOnKey {
		if p.lockedSince.IsZero() {
			p.lockedSince = now
		}
	}
}

// unlockKey removes p from its key, and lets groups take the op behind it.
func (q *writeQueue) unlockKey(p *Pending) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.removeFromKey(p)
	q.signal()
}
