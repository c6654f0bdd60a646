package ring

import (
	"math"

	"github.com/clockd/clockd/clock"
)

// confirmation is a version of the settings that the loop applies, and confirms after its last batch from before.
type confirmation struct {
	version   int64
	lastBatch uint64 // number of the last batch that was handed out before; 0: none
}

// Confirm asks the loop to confirm a version of the settings. The loop does so when it has applied all calls of Reroute
// before this one, and all batches that it had handed out before are settled. From then on no claim of this process
// starts that the settings forbid. Confirm does not wait. Safe for concurrent use.
func (l *Loop) Confirm(version int64) {
	l.rerouteMu.Lock()
	defer l.rerouteMu.Unlock()
	l.pendingReroute.confirm = max(l.pendingReroute.confirm, version)
	clock.Signal(l.rerouted)
}

// Confirmed returns the latest confirmed version, 0 if there is none. Safe for concurrent use.
func (l *Loop) Confirmed() int64 { return l.confirmed.Load() }

// handOut sends a batch to a worker.
func (l *Loop) handOut(work chan<- batch, b batch) {
	l.lastBatch++
	b.number = l.lastBatch
	l.underWay[b.number] = struct{}{}
	work <- b
}

// updateConfirmed confirms the versions whose last batch from before is settled.
func (l *Loop) updateConfirmed() {
	if len(l.confirmations) == 0 {
		return
	}
	oldest := uint64(math.MaxUint64)
	for number := range l.underWay {
		oldest = min(oldest, number)
	}
	for len(l.confirmations) > 0 && l.confirmations[0].lastBatch < oldest {
		l.confirmed.Store(l.confirmations[0].version)
		l.confirmations = l.confirmations[1:]
	}
}
