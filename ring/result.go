package ring

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// batch holds the due entries that one worker rings together. They are all of one route.
type batch struct {
	crew        *crew
	entries     []entry
	quarantined []*watched // applications of a round of the quarantine; nil: a batch of healthy applications
	silent      bool       // the applications are silent: a round of the quarantine may last up to Config.ReplyTimeout
	leftovers   bool       // a round of leftovers: only tries in doubt at the crew's target are claimed
	anyTarget   bool       // leftovers whose target does not accept their application: tries in doubt at any target are claimed
	decreases   int        // pace.decreases when the batch was handed out
	number      uint64     // of the batches of a loop; see Loop.handOut
}

// result is the result of a batch.
type result struct {
	batch
	tallies        map[addressee]*tally // tallies by application; nil if a shared batch is wholly confirmed
	reoffered      []store.Due          // rows that ring again, as settled or as the claim has moved them
	putBack        []entry              // entries with unchanged rows: beyond the claim's bytes, locked elsewhere, or not sent
	elsewhere      []store.Elsewhere    // rows that the claim left to another target
	err            error                // error of the database: the batch was not claimed, or not settled
	settleFailed   bool                 // err came after the claim, so the state of the rows may be unknown
	load           float64              // largest part of a time limit that the batch used; see pace
	unclaimed      bool                 // the worker's lane was lost before the claim, or the process may not claim
	laneBroken     bool                 // the worker has no open lane now
	confirmedEarly map[addressee]bool   // applications that the loop has got an earlyConfirm of; nil for a shared batch
	atMostOnce     *result              // result of the entries that ring at most once, which are not in entries; nil: no such entries
}

// countOutcomes fills the tallies.
func (r *result) countOutcomes(rings []clock.Ring, outcomes []clock.Outcome) {
	r.tallies = map[addressee]*tally{}
	for i := range rings {
		name := addresseeOf(&rings[i])
		if r.confirmedEarly[name] {
			continue
		}
		f := r.tallies[name]
		if f == nil {
			f = &tally{}
			r.tallies[name] = f
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

func (t *tally) add(o clock.Outcome) {
	if o.Withdrawn { // the settings end the alarm, which tells nothing about the receiver
		return
	}
	if !o.Kind.NotSent() {
		t.taken++
	}
	if o.Final { // the alarm is over, and the reply shows that the receiver works
		t.confirmed++
		return
	}
	switch o.Kind {
	case clock.Confirmed:
		t.confirmed++
		return
	case clock.Unsent:
		return
	case clock.Awaited:
		t.awaited++
		return
	case clock.Refused:
		t.refused++
	case clock.Returned:
		t.undelivered++
	case clock.Doubtful:
		t.undelivered++
		t.silent++
	case clock.Untaken:
		t.untaken++
		t.silent++
	default:
	}
	t.failed++
	t.reason = o.Reason
}

// blameLate counts the awaited rings of an application as rings without a reply, if none of its rings was confirmed,
// and if its queue is slow, not the target: others have replies, or the application was silent before.
func (r *result) blameLate() {
	if !r.silent && !r.othersReplied() {
		return
	}
	for _, t := range r.tallies {
		if t.awaited > 0 && t.confirmed == 0 {
			t.failed, t.silent, t.undelivered = t.failed+t.awaited, t.silent+t.awaited, t.undelivered+t.awaited
			t.reason = "no reply in time, while the rings of other applications were confirmed"
		}
	}
}

// othersReplied reports whether all rings of at least half of the applications in the batch were confirmed. In a round
// of the quarantine, every other reply counts like a confirm.
func (r *result) othersReplied() bool {
	whole := len(r.confirmedEarly) // these have no tally
	for _, t := range r.tallies {
		failed := t.failed
		if r.quarantined != nil {
			failed = t.silent
		}
		if t.awaited == 0 && failed == 0 && t.confirmed+t.failed > 0 {
			whole++
		}
	}
	return whole > 0 && 2*whole >= len(r.tallies)+len(r.confirmedEarly)
}

// unsent returns the number of rings that never left this process.
func unsent(outcomes []clock.Outcome) int {
	n := 0
	for i := range outcomes {
		if outcomes[i].Kind.NotSent() {
			n++
		}
	}
	return n
}

// fateFunc is clock.FateOf or clock.LateFateOf.
type fateFunc func(ring *clock.Ring, outcome clock.Outcome, now clock.Instant) clock.Fate

// decideFates returns the fate of each ring, and adds the rows that ring again to r.reoffered. If several rings were
// refused, it is unknown which one is to blame, until smaller batches tell. So all of them are in doubt, or as if never
// tried where the target has stored none.
func (r *result) decideFates(
	rings []clock.Ring, outcomes []clock.Outcome, now clock.Instant, fateOf fateFunc,
) []clock.Fate {
	refused := 0
	for i := range outcomes {
		if outcomes[i].Kind == clock.Refused {
			refused++
		}
	}
	fates := make([]clock.Fate, len(outcomes))
	for i, o := range outcomes {
		if o.Kind == clock.Refused && refused > 1 {
			o.Kind = clock.Doubtful
			if o.Unstored {
				o.Kind = clock.Unsent
			}
		}
		fates[i] = fateOf(&rings[i], o, now)
		if next := fates[i].NextTryTime; next != clock.NoInstant && o.Kind != clock.Awaited {
			r.reoffered = append(r.reoffered, store.Due{
				ID: rings[i].AlarmID, NextTryTime: next, Rank: store.RankOfRing(&rings[i]),
				Shard:       rings[i].Shard,
				Application: rings[i].Application,
			})
		}
	}
	return fates
}

const (
	// maxMissedClaims bounds how often an entry that a claim passed over is claimed again soon. Its row may be locked
	// by a set or cancel that changes nothing. After that, a sweep finds the row if it is still due.
	maxMissedClaims = 2
	// claimAgainMS is the wait of such an entry, in milliseconds. An entry that was claimed and not sent waits as long.
	claimAgainMS = 20
)

// released returns the entries of rings that are released, as if they had not been claimed.
func (r *result) released(rings []clock.Ring, now clock.Instant) []entry {
	ids := make(map[int64]bool, len(rings))
	for i := range rings {
		ids[rings[i].AlarmID] = true
	}
	var released []entry
	for _, e := range r.entries {
		if ids[e.id] {
			e.popAt, e.missedClaims = now+claimAgainMS, 0
			released = append(released, e)
		}
	}
	return released
}

// split divides entries into entries with the given ids and the others.
func split(entries []entry, ids []int64) (named, others []entry) {
	isNamed := make(map[int64]bool, len(ids))
	for _, id := range ids {
		isNamed[id] = true
	}
	for _, e := range entries {
		if isNamed[e.id] {
			named = append(named, e)
		} else {
			others = append(others, e)
		}
	}
	return named, others
}

// toClaimAgain returns the entries that the claim did not take and that are claimed again: deferred ones (beyond the
// claim's bytes) at once, passed-over ones after claimAgainMS.
func toClaimAgain(entries []entry, claim *store.Claim, now clock.Instant) []entry {
	if len(claim.Rings)+len(claim.Ended)+len(claim.Moved) == len(entries) {
		return nil
	}
	claimAgain := make(map[int64]bool, len(entries)) // false: taken by the claim
	for i := range claim.Rings {
		claimAgain[claim.Rings[i].AlarmID] = false
	}
	for i := range claim.Ended {
		claimAgain[claim.Ended[i].ID] = false
	}
	for i := range claim.Moved {
		claimAgain[claim.Moved[i].ID] = false
	}
	for _, id := range claim.AtMostOnce {
		claimAgain[id] = false // these get a claim of their own
	}
	for _, e := range claim.Elsewhere {
		claimAgain[e.ID] = false // leaveElsewhere decides about these
	}
	for _, id := range claim.Deferred {
		claimAgain[id] = true
	}
	var putBack []entry
	for _, e := range entries {
		deferred, known := claimAgain[e.id]
		switch {
		case deferred:
			putBack = append(putBack, e)
		case !known && e.missedClaims < maxMissedClaims:
			e.missedClaims++
			e.popAt = now + claimAgainMS
			putBack = append(putBack, e)
		}
	}
	return putBack
}
