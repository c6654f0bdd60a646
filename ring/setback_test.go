package ring

import (
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// TestEntryComesBackAfterTheClockIsSetBack puts an overdue entry back after a claim that passed it over, at a time from
// before the database's clock was set back by an hour. The next sweep brings it into reach again.
func TestEntryComesBackAfterTheClockIsSetBack(t *testing.T) {
	const now, hour clock.Instant = 100_000_000, 3_600_000
	h, row := NewHeap(1, 100), store.Due{ID: 7, NextTryTime: now - hour - 60_000, Application: "shop"}
	h.Offer(0, []store.Due{row})
	popped := h.pop(nil, 0, now, 10)
	h.complete(toClaimAgain(popped, &store.Claim{}, now), true)
	after := now - hour + 1000
	if early := h.pop(nil, 0, after, 10); len(early) > 0 {
		t.Fatal("the entry did not wait: this test shows nothing")
	}
	h.Offer(0, []store.Due{row})
	if found := h.pop(nil, 0, after, 10); len(found) != 1 {
		t.Errorf("%d entries a second after the clock was set back, want 1", len(found))
	}
}
