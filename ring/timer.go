package ring

import "time"

// Timer wakes the loop when the next alarm is due.
type Timer interface {
	// C returns a channel that gets a value when the timer expires. After a Reset it may still hold a value from
	// before.
	C() <-chan time.Time
	// Reset makes the timer expire once, after d.
	Reset(d time.Duration)
	// Stop frees the timer's resources. Reset must not be called after it.
	Stop()
}

// plainTimer is a timer of the Go runtime. On Linux it is up to a millisecond late in an idle process, half a
// millisecond on average, because the runtime then waits for the network in whole milliseconds.
type plainTimer struct{ timer *time.Timer }

func newPlainTimer() Timer { return plainTimer{time.NewTimer(0)} }

func (t plainTimer) C() <-chan time.Time   { return t.timer.C }
func (t plainTimer) Reset(d time.Duration) { t.timer.Reset(d) }
func (t plainTimer) Stop()                 { t.timer.Stop() }
