package stats

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

// rung gives a Recent a batch with one ring for each outcome.
func (r *Recent) rung(kinds ...clock.OutcomeKind) {
	rings, outcomes := make([]clock.Ring, len(kinds)), make([]clock.Outcome, len(kinds))
	for i, kind := range kinds {
		rings[i] = clock.Ring{Key: clock.Key{Application: "shop", BusinessID: fmt.Sprint(i)}, AlarmID: 7, RingNo: 2,
			RingAt: 5}
		outcomes[i] = clock.Outcome{Kind: kind}
	}
	r.Rung(clock.TargetStream, rings, outcomes, 9)
}

// repeated returns an outcome n times.
func repeated(kind clock.OutcomeKind, n int) []clock.OutcomeKind {
	kinds := make([]clock.OutcomeKind, n)
	for i := range kinds {
		kinds[i] = kind
	}
	return kinds
}

func TestTriesAreKeptWhileSomebodyLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recent
		r.rung(clock.Confirmed)
		if tries, next := r.Since(0); len(tries) != 0 || next != 0 {
			t.Errorf("kept without a look: %+v, %d", tries, next)
		}
		r.rung(clock.Confirmed, clock.Awaited, clock.Unsent, clock.Untaken, clock.Nacked)
		tries, next := r.Since(0)
		if len(tries) != 2 || next != 2 || tries[1].Key.BusinessID != "4" || tries[1].Outcome != clock.Nacked ||
			tries[1].MessageID != "7.0.2" || tries[1].Target != clock.TargetStream || tries[1].RingAt != 5 ||
			tries[1].At != 9 {
			t.Errorf("%+v, %d", tries, next)
		}
		if tries, _ := r.Since(next); len(tries) != 0 {
			t.Errorf("seen tries come again: %+v", tries)
		}
		if tries, _ := r.Since(99); len(tries) != 2 {
			t.Errorf("after a number of another node: %+v", tries)
		}
		time.Sleep(recentLook + time.Second)
		r.rung(clock.Confirmed)
		if tries, _ := r.Since(next); len(tries) != 0 {
			t.Errorf("kept long after a look: %+v", tries)
		}
	})
}

func TestTriesOfASecondAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Recent
		r.Since(0)
		for range 3 {
			r.rung(append(repeated(clock.Confirmed, 300), repeated(clock.Returned, 300)...)...)
		}
		tries, next := r.Since(0)
		if len(tries) != 2*recentPerSecond || tries[recentPerSecond].Outcome != clock.Returned {
			t.Errorf("%d tries of a second", len(tries))
		}
		for range 10 {
			time.Sleep(time.Second)
			r.rung(repeated(clock.Confirmed, 300)...)
		}
		tries, _ = r.Since(next)
		after := next + 10*recentPerSecond
		if len(tries) != maxRecent || tries[0].Number != after-maxRecent || tries[maxRecent-1].Number != after-1 {
			t.Errorf("%d tries from %d on", len(tries), tries[0].Number)
		}
	})
}

func BenchmarkRecentWithoutALook(b *testing.B) {
	var r Recent
	rings, outcomes := make([]clock.Ring, 300), make([]clock.Outcome, 300)
	b.ReportAllocs()
	for b.Loop() {
		r.Rung(clock.TargetAMQP, rings, outcomes, 1)
	}
}
