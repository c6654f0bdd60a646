package clock

import (
	"log/slog"
	"sync"
	"time"
)

// FaultLog logs a repeated fault, with at most one line in FaultLogEvery, even if there are successes between. When the fault ends it
// writes one more line, if the fault was logged. It is safe for concurrent use.
type FaultLog struct {
	log           *slog.Logger
	fault, healed string // log messages

	mu         sync.Mutex
	since      time.Time // time of the first fault since the last success; zero: there was none
	count      int       // faults since the last success
	logged     time.Time // time of the last line about a fault; zero: there was none
	suppressed int       // faults since that line
	told       bool      // a fault since the last success was logged
}

// FaultLogEvery is the least time between two lines about the same fault.
const FaultLogEvery = 10 * time.Second

// NewFaultLog returns a FaultLog with the log messages for a fault and for its end.
func NewFaultLog(log *slog.Logger, fault, healed string) *FaultLog {
	return &FaultLog{log: log, fault: fault, healed: healed}
}

// Failed notes a fault. If this fault is logged, the line has the attributes.
func (f *FaultLog) Failed(err error, attributes ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.count == 0 {
		f.since = now
	}
	f.count++
	if !f.logged.IsZero() && now.Sub(f.logged) < FaultLogEvery {
		f.suppressed++
		return
	}
	f.log.Warn(f.fault, append([]any{"err", err, "suppressed", f.suppressed}, attributes...)...) //nolint:sloglint // the owner's constant
	f.logged, f.suppressed, f.told = now, 0, true
}

// Succeeded notes a success, which ends the fault.
func (f *FaultLog) Succeeded() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 {
		return
	}
	if f.told {
		f.log.Info(f.healed, "count", f.count, "took", time.Since(f.since).Round(time.Millisecond)) //nolint:sloglint // the owner's constant
	}
	f.since, f.count, f.told = time.Time{}, 0, false
}
