package bench

import (
	"testing"
	"time"
)

const testSeries = series("s")

func ringOf(n int, messageID string, at time.Time) *ring {
	return &ring{
		messageID: []byte(messageID), businessID: []byte(testSeries.id(n)), payload: testSeries.appendPayload(nil, n),
		at: at,
	}
}

func TestTallyCountsEveryKindOfRing(t *testing.T) {
	due := int64(1_000_000)
	at := time.UnixMilli(due)
	tally := newTally(testSeries, 4, func(int) int64 { return due }, clockOffset{})
	tally.take(ringOf(0, "1.1.1", at.Add(3*time.Millisecond)))
	tally.take(ringOf(0, "1.1.1", at.Add(4*time.Millisecond))) // duplicate
	tally.take(ringOf(0, "1.1.2", at.Add(5*time.Millisecond))) // again
	tally.take(ringOf(1, "2.1.1", at.Add(-time.Millisecond)))  // early
	wrong := ringOf(2, "3.1.1", at.Add(time.Millisecond))
	wrong.payload[100] ^= 1
	tally.take(wrong)
	foreign := ringOf(3, "9.1.1", at)
	foreign.businessID = []byte("other-00000003")
	tally.take(foreign)
	tally.take(ringOf(7, "9.1.1", at)) // beyond the series

	want := Rings{Expected: 4, Rung: 3, Lost: 1, Early: 1, Duplicates: 1, Again: 1, Wrong: 1, Foreign: 2}
	if got := tally.sum(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := tally.lateness().Max; got != 3*time.Millisecond {
		t.Errorf("latest first ring %s", got)
	}
	if got := tally.lastRing(); !got.Equal(at.Add(time.Millisecond)) {
		t.Errorf("last first ring at %s", got)
	}
}

// The time of the claim counts too: a slow delivery may hide that the ring was early.
func TestEarlyClaimIsAnEarlyRing(t *testing.T) {
	tally := newTally(testSeries, 1, func(int) int64 { return 1000 }, clockOffset{})
	r := ringOf(0, "1.1.1", time.UnixMilli(1005))
	r.rungAt = 999
	tally.take(r)
	if got := tally.sum().Early; got != 1 {
		t.Errorf("%d early", got)
	}
}

func TestTallyWaitsForAllRingsOrSilence(t *testing.T) {
	tally := newTally(testSeries, 1, func(int) int64 { return 1000 }, clockOffset{})
	rings, err := tally.wait(t.Context(), time.Now(), 10*time.Millisecond)
	if err != nil || rings.Lost != 1 {
		t.Errorf("silence: %+v, %v", rings, err)
	}
	tally.take(ringOf(0, "1.1.1", time.Now()))
	rings, err = tally.wait(t.Context(), time.Now(), time.Minute)
	if err != nil || rings.Lost != 0 {
		t.Errorf("whole: %+v, %v", rings, err)
	}
}

func TestLatenessUsesTheClockOffset(t *testing.T) {
	at := time.UnixMilli(5000)
	for _, test := range []struct {
		offset clockOffset
		late   time.Duration
	}{
		{clockOffset{low: -time.Millisecond, high: time.Millisecond}, 0}, // one clock
		{clockOffset{low: 2 * time.Second, high: 4 * time.Second}, 3 * time.Second},
		{clockOffset{low: -4 * time.Second, high: -2 * time.Second}, -3 * time.Second},
	} {
		if got := test.offset.late(at, 5000); got != test.late {
			t.Errorf("%+v: %s late, want %s", test.offset, got, test.late)
		}
	}
}
