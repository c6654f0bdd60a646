package ring_test

import (
	"testing"
	"time"

	"github.com/clockd/clockd/ring"
)

func TestPreciseTimerIsNotEarly(t *testing.T) {
	timer := ring.PreciseTimer()
	defer timer.Stop()
	<-timer.C() // a new timer expires at once
	for _, d := range []time.Duration{-time.Second, 0, time.Microsecond, 700 * time.Microsecond, 12 * time.Millisecond} {
		began := time.Now()
		timer.Reset(d)
		<-timer.C()
		if took := time.Since(began); took < d {
			t.Errorf("%s: expired after %s", d, took)
		}
	}
	timer.Reset(time.Hour)
	select {
	case <-timer.C():
		t.Error("expired twice")
	case <-time.After(20 * time.Millisecond):
	}
	timer.Reset(time.Millisecond) // replaces the hour
	<-timer.C()
}

// A timer that expires several times before a read holds one value, and goes on.
func TestPreciseTimerGoesOnUnread(t *testing.T) {
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

// BenchmarkTimerLateness measures the lateness of timers in an idle process.
func BenchmarkTimerLateness(b *testing.B) {
	const pause = 1700 * time.Microsecond
	late := func(b *testing.B, reset func(time.Duration), c <-chan time.Time) {
		var sum time.Duration
		n := 0
		for b.Loop() {
			began := time.Now()
			reset(pause)
			<-c
			sum += time.Since(began) - pause
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
