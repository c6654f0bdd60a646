package stats

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// maxRecent is the number of the latest tries that a Recent keeps.
	maxRecent = 256
	// recentPerSecond is the most tries of one second that are kept: so many confirmed ones, and so many others.
	recentPerSecond = 50
	// recentLook is how long tries are kept after a look.
	recentLook = 15 * time.Second
)

// Try is a try of a ring whose outcome is known.
type Try struct {
	Number    int64 // one more with each kept try
	Key       clock.Key
	MessageID string
	RingNo    int
	Target    clock.TargetKind
	RingAt    clock.Instant // due time
	At        clock.Instant // database's time at which the outcome was known
	Outcome   clock.OutcomeKind
	Reason    string // empty if confirmed
}

// Recent keeps a sample of the latest tries of this node for people who watch. Without a look in the last 15 s a batch
// costs it one read of the time. All methods are safe for concurrent use.
type Recent struct {
	looked atomic.Int64 // local time of the last look, nanoseconds since the epoch; 0: none

	mu     sync.Mutex
	tries  [maxRecent]Try // by number
	next   int64          // number of the next try that is kept
	second int64          // second of the newest try, local time
	kept   [2]int         // tries of the second that were kept: others, confirmed
}

// Rung keeps some of a batch's tries, unless they are awaited or were not sent. now is the database's time at which the
// outcomes were known.
func (r *Recent) Rung(target clock.TargetKind, rings []clock.Ring, outcomes []clock.Outcome, now clock.Instant) {
	at := time.Now()
	if at.UnixNano()-r.looked.Load() > recentLook.Nanoseconds() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if second := at.Unix(); second != r.second {
		r.second, r.kept = second, [2]int{}
	}
	for i := range rings {
		ring, outcome := &rings[i], &outcomes[i]
		kind := 0
		if outcome.Kind == clock.Confirmed {
			kind = 1
		}
		if r.kept[kind] == recentPerSecond || outcome.Kind == clock.Awaited || outcome.Kind.NotSent() {
			continue
		}
		r.kept[kind]++
		r.tries[r.next%maxRecent] = Try{
			Number: r.next, Key: ring.Key, MessageID: ring.MessageID(), RingNo: ring.RingNo, Target: target,
			RingAt: ring.RingAt, At: now, Outcome: outcome.Kind, Reason: outcome.Reason,
		}
		r.next++
	}
}

// Since is a look: it returns the kept tries from a number on, the oldest first, and the number of the next try. A
// number beyond the next try stands for the oldest kept try.
func (r *Recent) Since(number int64) (tries []Try, next int64) {
	r.looked.Store(time.Now().UnixNano())
	r.mu.Lock()
	defer r.mu.Unlock()
	if number > r.next {
		number = 0
	}
	for n := max(number, r.next-maxRecent); n < r.next; n++ {
		tries = append(tries, r.tries[n%maxRecent])
	}
	return tries, r.next
}
