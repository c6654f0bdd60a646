package ring

import "time"

// Timer wakes the loop when the next alarm is due.
type Timer interface {
	// C gets a value when the timer expires; one of before a Reset may still be in it.
	C() <-chan time.Time
	// Reset has it expire once, that much later.
	Reset(d time.Duration)
	// Stop frees what it holds. Reset must not be called after it.
	Stop()
}

// plainTimer is Go's own. On Linux it is up to a millisecond late in a process that has nothing else to do, half of one on
// average: the runtime then waits for the network in whole milliseconds.
type plainTimer struct{ timer *time.Timer }

func newPlainTimer() Timer { return plainTimer{time.NewTimer(0)} }

func (t plainTimer) C() <-chan time.Time   { return t.timer.C }
func (t plainTimer) Reset(d time.Duration) { t.timer.Reset(d) }
func (t plainTimer) Stop()                 { t.timer.Stop() }
