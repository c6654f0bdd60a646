package ring

import (
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// batch is one round's work: entries that are due, of one application where own is set.
type batch struct {
	entries []entry
	own     *application
}

// result is what became of a batch.
type result struct {
	batch
	fared map[unique.Handle[string]]*fared
	again []store.Due // rows that left the claim to be rung again
	back  []entry     // as the database still has them: too many bytes for one claim, locked elsewhere, or not sent
	err   error       // of the database: the batch was not claimed, or not settled
	lost  bool        // err came after the claim: what became of it may be unknown
	once  *result     // of the entries that ring at most once, which are then not in entries; nil for none
}

// note adds up how each application fared.
func (r *result) note(rings []clock.Ring, outcomes []clock.Outcome) {
	if r.own == nil && allConfirmed(outcomes) {
		return // sharing a batch, only trouble is worth remembering
	}
	r.fared = map[unique.Handle[string]]*fared{}
	for i := range rings {
		name := unique.Make(rings[i].Application)
		f := r.fared[name]
		if f == nil {
			f = &fared{}
			r.fared[name] = f
		}
		f.add(outcomes[i])
	}
}

func allConfirmed(outcomes []clock.Outcome) bool {
	for i := range outcomes {
		if outcomes[i].Kind != clock.Confirmed {
			return false
		}
	}
	return true
}

func (f *fared) add(o clock.Outcome) {
	switch o.Kind {
	case clock.Confirmed:
		f.confirmed++
		return
	case clock.Unsent:
		return
	case clock.Refused:
		f.refused++
	case clock.Returned, clock.Doubtful:
		f.lost++
	default:
	}
	f.failed++
	f.reason = o.Reason
}

// unsent returns how many rings never left this process.
func unsent(outcomes []clock.Outcome) int {
	n := 0
	for i := range outcomes {
		if k := outcomes[i].Kind; k == clock.Unsent || k == clock.Untaken {
			n++
		}
	}
	return n
}

// fates returns how each ring leaves its claim, and notes those that are to be rung again. Of several refused rings it is
// not known which one is to blame: they are in doubt until smaller batches tell.
func (r *result) fates(rings []clock.Ring, outcomes []clock.Outcome, now clock.Instant) []clock.Fate {
	refused := 0
	for i := range outcomes {
		if outcomes[i].Kind == clock.Refused {
			refused++
		}
	}
	fates := make([]clock.Fate, len(outcomes))
	for i, o := range outcomes {
		switch {
		case o.Kind == clock.Refused && refused > 1:
			o.Kind = clock.Doubtful
		case o.Kind == clock.Untaken:
			o.Kind = clock.Unsent // whose fault it is matters to the loop, not to the row
		}
		fates[i] = clock.Settle(&rings[i], o, now)
		if next := fates[i].NextTryTime; next != clock.NoInstant {
			r.again = append(r.again, store.Due{
				ID: rings[i].AlarmID, NextTryTime: next, Rank: store.Rank(rings[i].Priority), Shard: rings[i].Shard,
				Application: rings[i].Application,
			})
		}
	}
	return fates
}

const (
	// maxMissed is how often an entry that a claim passed over is claimed again soon: its row may be locked by a set or cancel
	// that changes nothing. After that the sweep brings it, if it is still due.
	maxMissed = 2
	// missedMS is how long such an entry waits, and one that was claimed and could not be sent.
	missedMS = 20
)

// released returns the entries of rings that are given back as if they had not been claimed.
func (r *result) released(rings []clock.Ring, now clock.Instant) []entry {
	ids := make(map[int64]bool, len(rings))
	for i := range rings {
		ids[rings[i].AlarmID] = true
	}
	var released []entry
	for _, e := range r.entries {
		if ids[e.id] {
			e.at, e.missed = now+missedMS, 0
			released = append(released, e)
		}
	}
	return released
}

// split divides entries into those of the ids and the others.
func split(entries []entry, ids []int64) (those, others []entry) {
	named := make(map[int64]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	for _, e := range entries {
		if named[e.id] {
			those = append(those, e)
		} else {
			others = append(others, e)
		}
	}
	return those, others
}

// notTaken returns the entries to be claimed again: those left for their bytes at once, those passed over a little later.
func notTaken(entries []entry, claim *store.Claim, now clock.Instant) []entry {
	if len(claim.Rings)+len(claim.Ended) == len(entries) {
		return nil
	}
	left := make(map[int64]bool, len(entries)) // false: taken
	for i := range claim.Rings {
		left[claim.Rings[i].AlarmID] = false
	}
	for i := range claim.Ended {
		left[claim.Ended[i].ID] = false
	}
	for _, id := range claim.Once {
		left[id] = false // they have a claim of their own
	}
	for _, id := range claim.Left {
		left[id] = true
	}
	var back []entry
	for _, e := range entries {
		again, seen := left[e.id]
		switch {
		case again:
			back = append(back, e)
		case !seen && e.missed < maxMissed:
			e.missed++
			e.at = now + missedMS
			back = append(back, e)
		}
	}
	return back
}
