package clock

import (
	"container/heap"
	"slices"
	"time"
)

// The Writer's queue holds the ops that wait for a transaction. Each application has a queue, and applications take
// turns. Each key has a queue too, because its ops are written one by one. The queue has bounds for its bytes in all,
// and the bytes of one application, the wait of its ops, and the ops on one key.

// undecided returns the number of ops that are queued or in transactions, and their bytes.
func (w *Writer) undecided() (ops, bytes int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ops, w.bytes
}

// enqueue queues p, or returns the reason against it. pushedOut are the ops that had to make room.
func (w *Writer) enqueue(p *Pending) (pushedOut []*Pending, refusal DropReason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, DropStopping
	}
	queue := w.keys[p.key]
	if queue != nil && queue.ops >= w.cfg.KeyOps {
		return nil, DropKeyFull
	}
	app := w.app(p.key.Application)
	if w.wouldWaitTooLong(app, p) {
		w.forgetIfEmpty(app)
		return nil, DropQueueSlow
	}
	pushedOut, fits := w.makeRoom(app, p.size)
	if !fits {
		w.forgetIfEmpty(app)
		return pushedOut, DropQueueFull
	}
	w.put(p, app)
	w.signalGroup()
	return pushedOut, ""
}

// dequeue takes p out of the queue, unless a group has taken it, and reports whether it did.
func (w *Writer) dequeue(p *Pending) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !p.isQueued {
		return false
	}
	app := p.app
	w.removeFromLists(p)
	w.removeFromKey(p)
	if app.bytes == 0 && app.hasTurn { // it is forgotten, and no group may come for long
		w.turns = slices.DeleteFunc(w.turns, func(a *appQueue) bool { return a == app })
	}
	w.signalGroup() // the next op on the key may be ready
	return true
}

// wouldWaitTooLong reports whether p is refused because it would wait too long. A set may wait for
// WriterConfig.QueueWait. All other ops may wait twice as long, so cancels and answers are still accepted when sets are
// refused. No op may wait past its caller's deadline.
func (w *Writer) wouldWaitTooLong(app *appQueue, p *Pending) bool {
	bound := w.cfg.QueueWait
	if p.op.Set == nil {
		bound *= 2
	}
	wait := w.expectedWait(app, p.submitted)
	if end, given := p.ctx.Deadline(); given && max(wait, w.stall(p.submitted)) > end.Sub(p.submitted) {
		return true
	}
	return wait > bound
}

// stall returns how long ready ops have waited without a group being taken. Callers with little time withdraw their
// ops, so the age of the oldest op does not show it.
func (w *Writer) stall(now time.Time) time.Duration {
	if w.stalledSince.IsZero() {
		return 0
	}
	return now.Sub(w.stalledSince)
}

// expectedWait estimates how long a new op of the application would wait for its group. The first ready op shows how
// long a group takes: it has waited for the groups of the ops ahead of it, and for the transaction before them. Example
// with groups of 500 ops: the first ready op had 500 ops ahead and has waited 300 ms, so 2 transactions take 300 ms.
// With 2,000 ready ops, a new op waits for 5: 750 ms.
func (w *Writer) expectedWait(app *appQueue, now time.Time) time.Duration {
	first := app.ready.first
	if first == nil {
		return 0
	}
	transactions := func(ahead int) float64 { return 1 + float64(ahead)/float64(w.cfg.GroupOps) }
	return time.Duration(float64(now.Sub(first.readySince)) * transactions(app.readyOps) / transactions(first.readyAhead))
}

// noteProgress is called when a group was taken or written: no ready op has waited in vain.
func (w *Writer) noteProgress(now time.Time) {
	w.stalledSince = time.Time{}
	if w.ready > 0 {
		w.stalledSince = now
	}
}

// app returns the application's queue and creates it if necessary.
func (w *Writer) app(name string) *appQueue {
	app := w.apps[name]
	if app == nil {
		app = &appQueue{name: name}
		w.apps[name] = app
		heap.Push(&w.appsBySize, app)
	}
	return app
}

func (w *Writer) forgetIfEmpty(app *appQueue) {
	if app.bytes == 0 {
		delete(w.apps, app.name)
		heap.Remove(&w.appsBySize, app.heapIndex)
	}
}

// makeRoom reports whether the queue has room for size more bytes of the application. If the queue is full, the
// application with the most queued bytes loses ops, the newest first. One application alone never fills the queue, so
// there is room for others without pushing ops out.
func (w *Writer) makeRoom(app *appQueue, size int) (pushedOut []*Pending, fits bool) {
	if app.bytes+size > w.cfg.QueueBytes/4*3 {
		return nil, false
	}
	for w.bytes+size > w.cfg.QueueBytes {
		most := w.appsBySize[0]
		if most.queuedBytes <= app.queuedBytes+size {
			return pushedOut, false
		}
		p := most.newest()
		w.removeFromLists(p)
		w.removeFromKey(p)
		pushedOut = append(pushedOut, p)
	}
	return pushedOut, true
}

// put appends p to the queue of its application and to the queue of its key.
func (w *Writer) put(p *Pending, app *appQueue) {
	w.arrivals++
	p.app, p.arrival = app, w.arrivals
	queue := w.keys[p.key] // looked up again, because makeRoom may have removed it
	if queue == nil {
		queue = w.newKeyQueue()
		w.keys[p.key] = queue
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
	p.isQueued = true
	p.readySince, p.readyAhead = p.submitted, app.readyOps
	app.bytes += p.size
	app.queuedBytes += p.size
	heap.Fix(&w.appsBySize, app.heapIndex)
	w.ops++
	w.bytes += p.size
	if queue.first != p {
		app.blocked.pushBack(p)
		return
	}
	app.ready.pushBack(p)
	w.countReady(app)
}

func (w *Writer) newKeyQueue() *keyQueue {
	if n := len(w.spareKeyQueues); n > 0 {
		queue := w.spareKeyQueues[n-1]
		w.spareKeyQueues = w.spareKeyQueues[:n-1]
		return queue
	}
	return new(keyQueue)
}

// countReady counts an op that was added to the application's ready ops, and gives the application a turn if it has
// none.
func (w *Writer) countReady(app *appQueue) {
	w.ready++
	app.readyOps++
	if w.stalledSince.IsZero() {
		w.stalledSince = time.Now()
	}
	if !app.hasTurn {
		app.hasTurn, app.creditBytes = true, turnBytes
		w.turns = append(w.turns, app)
	}
}

// removeFromLists takes p out of its application's lists. p stays in the queue of its key. An application that has no
// ready ops left keeps its turn until take reaches it.
func (w *Writer) removeFromLists(p *Pending) {
	if p.keyQueue.first == p {
		p.app.ready.remove(p)
		w.ready--
		p.app.readyOps--
	} else {
		p.app.blocked.remove(p)
	}
	p.isQueued = false
	p.app.queuedBytes -= p.size
	heap.Fix(&w.appsBySize, p.app.heapIndex)
}

// removeFromKey takes p, which is in no list any more, out of the queue of its key and out of all counts. The next op
// on the key becomes ready.
func (w *Writer) removeFromKey(p *Pending) {
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
	w.ops--
	w.bytes -= p.size
	app.bytes -= p.size
	switch {
	case queue.first == nil:
		delete(w.keys, p.key)
		if len(w.spareKeyQueues) < maxSpareKeyQueues {
			w.spareKeyQueues = append(w.spareKeyQueues, queue)
		}
		w.forgetIfEmpty(app)
	case first:
		app.blocked.remove(queue.first)
		queue.first.readySince, queue.first.readyAhead = time.Now(), 0
		app.ready.pushFront(queue.first) // at the front, because it has waited longer than most ops
		w.countReady(app)
	}
}

// maxSpareKeyQueues is the most key queues in Writer.spareKeyQueues.
const maxSpareKeyQueues = 4096

// signalGroup wakes a committer if a group may begin. The caller holds mu.
func (w *Writer) signalGroup() {
	if !w.mayBegin() {
		return
	}
	Signal(w.groupReady)
}

// mayBegin reports whether a group may begin. The caller holds mu.
func (w *Writer) mayBegin() bool {
	return w.ready > 0 && (w.youngGroups == 0 || w.ready >= min(secondGroupOps, w.cfg.GroupOps))
}
