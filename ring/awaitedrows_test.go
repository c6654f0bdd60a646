package ring

import (
	"slices"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// The heap leaves out the rows of awaited rings, as they were written, and no others.
func TestHeapLeavesOutRowsOfAwaitedRings(t *testing.T) {
	h := NewHeap(1, 100)
	ring := func(id int64) clock.Ring {
		r := clock.Ring{AlarmID: id}
		r.Application, r.LatestRingAt = "a", clock.NoInstant
		return r
	}
	fate := func(due clock.Instant) clock.Fate {
		return clock.Fate{Outcome: clock.Outcome{Kind: clock.Awaited}, RingRow: clock.RingRow{NextTryTime: due}}
	}
	row := func(id int64, due clock.Instant) store.Due {
		return store.Due{ID: id, NextTryTime: due, Shard: 1, Application: "a"}
	}
	wantWaiting := func(when string, want int) {
		t.Helper()
		if got, _ := h.Len(); got != want {
			t.Errorf("%s: %d entries, want %d", when, got, want)
		}
	}
	expiring := ring(3)
	expiring.LatestRingAt = 4000
	rings := []clock.Ring{ring(1), ring(2), expiring}
	h.await(rings, []clock.Fate{fate(5000), fate(5000), fate(4001)})
	h.Offer(0, []store.Due{row(1, 5000), row(2, 5000)})
	wantWaiting("as written", 0)
	h.await(rings[:1], []clock.Fate{fate(8000)})
	h.Offer(0, []store.Due{row(1, 5000), row(1, 8000)})
	wantWaiting("postponed, or still as before", 0)
	h.Offer(0, []store.Due{row(3, 4001)})
	wantWaiting("the alarm can expire", 1)
	h.Offer(0, []store.Due{row(1, 6000)})
	wantWaiting("a row that was changed", 2)
	if got, want := h.endAwait(rings), []store.Due{row(1, 8000), row(2, 5000)}; !slices.Equal(got, want) {
		t.Errorf("left out: %v, want %v", got, want)
	}
	h.Offer(0, []store.Due{row(2, 5000)})
	wantWaiting("no longer awaited", 3)
	if len(h.awaited) > 0 {
		t.Errorf("still awaited: %v", h.awaited)
	}
}
