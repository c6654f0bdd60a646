package clock

import (
	"context"
	"time"
)

// A key is locked while the op that is first on it waits for its row: a transaction holds the row's lock, or a two-phase claim has
// taken the row. The ops behind that op wait as well.

// twoPhaseWait is how long an op waits for the end of a two-phase claim, at most. The rest of Patience remains for the queue.
const twoPhaseWait = Patience - 5*time.Second

// lockTurn is how long one transaction waits for a row lock, at most. Then its slot goes to the next application, and the op queues
// for another slot. So an application whose rows stay locked delays others by no more than this.
const lockTurn = time.Second

// serveLockedKey writes p, whose key is locked, and then unlocks the key for the committers.
func (q *writeQueue) serveLockedKey(ctx context.Context, p *Pending) {
	d, written := q.writer.writeWhenUnlocked(ctx, p)
	q.unlockKey(p)
	if !written {
		q.writer.drop(p, DropAbandoned)
		return
	}
	q.writer.finish(p, &d, time.Now())
}

// writeWhenUnlocked writes one op whose row may be locked. It waits for a lock for at most LockWait, and for a two-phase claim at
// most until the claim's end. Both waits count from p.lockedSince, which includes the wait behind other ops on the key. Otherwise
// each op of a long queue on one key would wait another LockWait. written is false if the caller has left.
func (w *Writer) writeWhenUnlocked(ctx context.Context, p *Pending) (d Decision, written bool) {
	const firstPoll, lastPoll = 5 * time.Millisecond, 100 * time.Millisecond
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		if !w.lockSlots.acquire(p) {
			return d, false
		}
		d = w.write(ctx, []Op{p.op}, max(0, min(lockTurn, w.cfg.LockWait-time.Since(p.lockedSince))))[0]
		w.lockSlots.release()
		if d.Verdict != Wait {
			return d, true
		}
		left := w.lockWaitLeft(p, &d.Alarm)
		if left <= 0 {
			return Decision{Verdict: Refuse, Alarm: d.Alarm, Err: p.op.LockTimeout(&d.Alarm)}, true
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
