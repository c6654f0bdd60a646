package clock

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoffWaitsFromHalfToTheWholeAndDoubles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := Backoff{First: time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(t, "first"))}
		b.Last = b.First + time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "more"))
		failures := rapid.IntRange(0, 1000).Draw(t, "failures")
		longest := b.First
		for range min(failures, 40) {
			longest = min(2*longest, b.Last)
		}
		if failures <= 20 {
			if wait := b.Wait(failures); wait < longest/2 || wait > longest {
				t.Fatalf("%s after %d failures, want from %s to %s", wait, failures, longest/2, longest)
			}
		}
		if wait := b.Wait(failures); wait < 0 || wait > b.Last {
			t.Fatalf("%s after %d failures, at most %s", wait, failures, b.Last)
		}
	})
}

func TestSignalNeverBlocksAndIsKeptOnce(t *testing.T) {
	c := make(chan struct{}, 1)
	Signal(c)
	Signal(c)
	<-c
	select {
	case <-c:
		t.Error("a second signal was kept")
	default:
	}
}
