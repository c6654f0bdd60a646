package ring

import (
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// awaitedRows are the rows of rings whose late replies this process awaits. Such a row is due again after
// clock.AwaitTimeout, so that another node rings it if this process dies. This process does not ring the row, even if
// it cannot postpone the due time. The heap leaves these rows out. It takes any other row of the same alarm: a set has
// changed it.
type awaitedRows map[int64]awaitedRow

// awaitedRow is a row that is awaited.
type awaitedRow struct {
	due     clock.Instant // next_try_time of the last settlement, which may have failed
	before  clock.Instant // next_try_time of the settlement before that; it may still be in the database, and on pages
	skipped *entry        // the row, if it was offered meanwhile; nil: it was not
}

// skip reports whether e is an awaited row, and keeps it as skipped.
func (a awaitedRows) skip(e entry) bool {
	if len(a) == 0 {
		return false
	}
	row, awaited := a[e.id]
	if !awaited || e.due != row.due && e.due != row.before {
		return false
	}
	row.skipped = &e
	a[e.id] = row
	return true
}

// await makes the heap leave out the rows of awaited rings, as these fates write them. Call it before they are written.
func (h *Heap) await(rings []clock.Ring, fates []clock.Fate) {
	if !slices.ContainsFunc(fates, func(f clock.Fate) bool { return f.Outcome.Kind == clock.Awaited }) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range fates {
		if !awaitable(&rings[i], &fates[i]) {
			continue
		}
		row := h.awaited[rings[i].AlarmID]
		if row.due != fates[i].NextTryTime {
			row.before, row.due = row.due, fates[i].NextTryTime
		}
		h.awaited[rings[i].AlarmID] = row
	}
}

// awaitable reports whether the fate's row is due again only because the process may die. If the ring's time ends
// earlier, the row is due at that end, so that the alarm expires.
func awaitable(r *clock.Ring, f *clock.Fate) bool {
	return f.Outcome.Kind == clock.Awaited && f.NextTryTime != clock.NoInstant &&
		(r.LatestRingAt == clock.NoInstant || f.NextTryTime <= r.LatestRingAt)
}

// endAwait makes the heap take the rows of these rings again. It returns the rows that were left out.
func (h *Heap) endAwait(rings []clock.Ring) (skipped []store.Due) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range rings {
		if e := h.awaited[rings[i].AlarmID].skipped; e != nil {
			skipped = append(skipped, e.row())
		}
		delete(h.awaited, rings[i].AlarmID)
	}
	return skipped
}
