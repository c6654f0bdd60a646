package clock

import (
	"context"
	"time"
)

// A key is locked while the op that is first on it waits for its row: a transaction holds the row's lock, or a
// two-phase claim has taken the row. The ops behind that op wait as well.

// twoPhaseWait is how long an op waits for the end of a two-phase claim, at most. The rest of RequestTimeout remains
// for the queue.
const twoPhaseWait = RequestTimeout - 5*time.Second

// lockTurn is how long one transaction waits for a row lock, at most. Then its slot goes to the next application, and
// the op queues for another slot. So an application whose rows stay locked delays others by no more than this.
const lockTurn = time.Second

// lockKey marks the key of p as locked. From now on p and the ops behind it wait for the row.
func (w *Writer) lockKey(p *Pending) {
	p.keyQueue.locked = true
	now := time.Now()
	for ; p != nil; p = p.nextOnKey {
		if p.lockedSince.IsZero() {
			p.lockedSince = now
		}
	}
}

// unlockKey removes p from its key, and lets groups take the op behind it.
func (w *Writer) unlockKey(p *Pending) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removeFromKey(p)
	w.signalGroup()
}

// serveLockedKey writes p, whose key is locked, and then unlocks the key for the committers.
func (w *Writer) serveLockedKey(ctx context.Context, p *Pending) {
	d, written := w.writeWhenUnlocked(ctx, p)
	w.unlockKey(p)
	if !written {
		w.drop(p, DropAbandoned)
		return
	}
	w.finish(p, &d, time.Now())
}

// writeWhenUnlocked writes one op whose row may be locked. It waits for a lock for at most LockWait, and for a
// two-phase claim at most until the claim's end. Both waits count from p.lockedSince, which includes the wait behind
// other ops on the key. Otherwise each op of a long queue on one key would wait another LockWait. written is false if
// the caller has left.
func (w *Writer) writeWhenUnlocked(ctx context.Context, p *Pending) (d Decision, written bool) {
	const firstPoll, lastPoll = 5 * time.Millisecond, 100 * time.Millisecond
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		if !w.acquireLockSlot(p) {
			return d, false
		}
		d = w.write(ctx, []Op{p.op}, max(0, min(lockTurn, w.cfg.LockWait-time.Since(p.lockedSince))))[0]
		w.releaseLockSlot()
		if d.Verdict != Locked {
			return d, true
		}
		left := w.lockWaitLeft(p, &d.Alarm)
		if left <= 0 {
			return Decision{Verdict: Refuse, Alarm: d.Alarm, Err: p.op.LockTimeoutError(&d.Alarm)}, true
		}
		time.Sleep(min(poll, left))
	}
}

// lockWaitLeft returns how much longer p may wait for its row.
func (w *Writer) lockWaitLeft(p *Pending, row *Alarm) time.Duration {
	waited := time.Since(p.lockedSince)
	if !row.Claimed() {
		return w.cfg.LockWait - waited
	}
	return min(twoPhaseWait-waited, w.time.Until(row.NextTryTime))
}

// acquireLockSlot blocks until p has a slot and returns true. It returns false, without a slot, if the caller of p has
// left.
func (w *Writer) acquireLockSlot(p *Pending) bool {
	w.mu.Lock()
	waiter := w.lockSlots.acquire(p.key.Application)
	w.mu.Unlock()
	if waiter == nil {
		if p.abandoned(time.Now()) {
			w.releaseLockSlot()
			return false
		}
		return true
	}
	select {
	case <-waiter.granted:
		return true
	case <-p.ctx.Done():
	}
	mayBeHalfClosed := time.NewTimer(p.untilAbandoned(time.Now()))
	defer mayBeHalfClosed.Stop()
	select {
	case <-waiter.granted:
		return true
	case <-mayBeHalfClosed.C:
		w.mu.Lock()
		w.lockSlots.leave(waiter)
		w.mu.Unlock()
		return false
	}
}

func (w *Writer) releaseLockSlot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lockSlots.release()
}
