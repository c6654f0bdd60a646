package ring_test

import (
	"testing"
	"time"

	"github.com/clockd/clockd/ring"
)

func TestPreciseTimer(t *testing.T) {
	timer := ring.PreciseTimer()
	defer timer.Stop()
	<-timer.C() // as a new time.Timer of 0
	for _, d := range []time.Duration{-time.Second, 0, time.Microsecond, 700 * time.Microsecond, 12 * time.Millisecond} {
		begun := time.Now()
		timer.Reset(d)
		<-timer.C()
		if took := time.Since(begun); took < d {
			t.Errorf("%s: expired after %s", d, took)
		}
	}
	timer.Reset(time.Hour)
	select {
	case <-timer.C():
		t.Error("expired twice")
	case <-time.After(20 * time.Millisecond):
	}
	timer.Reset(time.Millisecond) // in the place of the hour
	<-timer.C()
}

// A timer that expires again before anybody has looked holds one value, and goes on.
func TestPreciseTimerThatIsNotRead(t *testing.T) {
	timer := ring.PreciseTimer()
	defer timer.Stop()
	for range 3 {
		timer.Reset(time.Microsecond)
		time.Sleep(2 * time.Millisecond)
	}
	<-timer.C()
	timer.Reset(time.Millisecond)
	<-timer.C()
}

// BenchmarkTimerLateness tells how late timers are in a process that waits for nothing else.
func BenchmarkTimerLateness(b *testing.B) {
	const pause = 1700 * time.Microsecond
	late := func(b *testing.B, reset func(time.Duration), c <-chan time.Time) {
		var sum time.Duration
		n := 0
		for b.Loop() {
			begun := time.Now()
			reset(pause)
			<-c
			sum += time.Since(begun) - pause
			n++
		}
		b.ReportMetric(float64(sum.Microseconds())/float64(n), "µs-late/op")
	}
	b.Run("precise", func(b *testing.B) {
		timer := ring.PreciseTimer()
		defer timer.Stop()
		<-timer.C()
		late(b, timer.Reset, timer.C())
	})
	b.Run("runtime", func(b *testing.B) {
		timer := time.NewTimer(0)
		<-timer.C
		late(b, func(d time.Duration) { timer.Reset(d) }, timer.C)
	})
}
