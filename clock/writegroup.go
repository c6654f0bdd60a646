package clock

import (
	"container/heap"
	"context"
	"fmt"
	"runtime"
	"time"
)

// secondGroupOps is how many ops must be ready before a second group is written beside another. Fewer ops wait for the
// transaction that is being written: a transaction costs as much as some dozens of rows, so two small transactions cost
// more than the wait.
const secondGroupOps = 32

// secondGroupAfter is how long a group may take before a second group is written beside it, with however few ops. The
// first group's connection may never get a reply.
const secondGroupAfter = 100 * time.Millisecond

// commitGroups writes group after group until ctx ends. Each committer runs it.
func (w *Writer) commitGroups(ctx context.Context) {
	work := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		runtime.Gosched() // lets requests that are about to submit join the group; costs nothing if there are none
		if w.writeNext(work) {
			continue
		}
		select {
		case <-w.groupReady:
		case <-ctx.Done():
		}
	}
}

// writeNext writes the next group and reports whether there was one.
func (w *Writer) writeNext(ctx context.Context) bool {
	group, abandoned := w.take()
	for _, p := range abandoned {
		w.drop(p, DropAbandoned)
	}
	if len(group) > 0 {
		w.writeGroup(ctx, group)
	}
	return len(group)+len(abandoned) > 0
}

// take removes the next group from the queue, within the bounds of a group. Applications take turns, and only ops that
// are first on their keys may join. Ops whose callers have left do not join; take removes them too and returns them as
// abandoned.
func (w *Writer) take() (group, abandoned []*Pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ready == 0 {
		w.noteProgress(time.Now()) // the ops that were ready were withdrawn
	}
	if !w.mayBegin() {
		return nil, nil
	}
	group = make([]*Pending, 0, min(w.ready, w.cfg.GroupOps))
	now, bytes := time.Now(), 0
	defer w.noteProgress(now)
	for len(w.turns) > 0 {
		app := w.turns[0]
		p := app.ready.first
		switch {
		case p == nil:
			app.hasTurn = false
			w.turns[0] = nil
			w.turns = w.turns[1:]
		case p.abandoned(now):
			w.removeFromLists(p)
			w.removeFromKey(p)
			abandoned = append(abandoned, p)
		case len(group) == w.cfg.GroupOps, len(group) > 0 && bytes+p.size > w.cfg.GroupBytes:
			w.youngGroups++
			return group, abandoned
		case p.cost() > app.creditBytes:
			app.creditBytes += turnBytes
			if len(w.turns) > 1 {
				w.turns = append(w.turns[1:], app)
			}
		default:
			app.creditBytes -= p.cost()
			bytes += p.size
			w.removeFromLists(p)
			group = append(group, p)
		}
	}
	if len(group) > 0 {
		w.youngGroups++
	}
	return group, abandoned
}

// groupIsSlow is called when a group's transaction has taken secondGroupAfter. From then on another group may begin
// beside it.
func (w *Writer) groupIsSlow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.youngGroups--
	w.signalGroup()
}

// writeGroup writes the group and finishes each op that is decided. The other ops wait for their locked row or for the
// next group.
func (w *Writer) writeGroup(ctx context.Context, group []*Pending) {
	ops := make([]Op, len(group))
	for i, p := range group {
		ops[i] = p.op
	}
	timer := time.AfterFunc(secondGroupAfter, w.groupIsSlow)
	decisions := w.write(ctx, ops, 0)
	now := time.Now()
	w.groupWritten(group, decisions, !timer.Stop())
	for i := len(decisions) - 1; i >= 0; i-- { // the first op last: a caller that waits for many ops in order then finds them all decided
		switch decisions[i].Verdict {
		case Postpone:
		case Locked:
			w.lockedOps.Go(func() { w.serveLockedKey(ctx, group[i]) })
		default:
			w.finish(group[i], &decisions[i], now)
		}
	}
}

// groupWritten ends a group. Ops that are decided leave their keys, postponed ops are ready again, and waiting ops lock
// their keys. It does not call signalGroup, because the committer that wrote the group looks for the next group itself.
func (w *Writer) groupWritten(group []*Pending, decisions []Decision, late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !late {
		w.youngGroups--
	}
	defer w.noteProgress(time.Now())
	for i := len(group) - 1; i >= 0; i-- { // backwards, so that the next ops on the keys become ready in the order of the group
		switch decisions[i].Verdict {
		case Postpone:
			w.requeue(group[i])
		case Locked:
			w.lockKey(group[i])
		default:
			w.removeFromKey(group[i])
		}
	}
}

// requeue makes p ready again, before the other ops of its application. A group had taken p, and p is still the first
// on its key.
func (w *Writer) requeue(p *Pending) {
	p.isQueued = true
	p.app.queuedBytes += p.size
	heap.Fix(&w.appsBySize, p.app.heapIndex)
	p.app.ready.pushFront(p)
	w.countReady(p.app)
}

// write applies the ops in one transaction, tells the listener, and returns one decision for each op.
func (w *Writer) write(ctx context.Context, ops []Op, wait time.Duration) []Decision {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	begun := time.Now()
	now, err := w.time.AtLeast()
	var decisions []Decision
	if err == nil {
		decisions, err = w.store.Write(ctx,
			WriteRequest{Now: now, Ops: ops, LockWait: wait, LoadBytes: w.cfg.LoadBytes,
				LargestPayload: w.largestPayload})
	}
	if err == nil && len(decisions) != len(ops) {
		err = Unconfirmed(fmt.Errorf("the store gave %d decisions for %d ops", len(decisions), len(ops)))
	}
	w.watch.note(err)
	if w.metrics.Write != nil {
		w.metrics.Write(len(ops), time.Since(begun), err)
	}
	if err != nil {
		decisions = make([]Decision, len(ops))
		for i := range decisions {
			decisions[i] = Decision{Verdict: Refuse, Err: err}
		}
		return decisions
	}
	w.listener.Committed(decisions)
	return decisions
}
