package mysql

import (
	"errors"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// TestEndsOnlyTheJudgedGeneration: a set may change a row after a claim has judged it, on a server that does not lock.
// The claim must not end the new generation.
func TestEndsOnlyTheJudgedGeneration(t *testing.T) {
	s := migrated(t)
	expiring := setOf("expiring", t0-2, nil)
	expiring.Set.LatestRingAt = t0 - 1
	unanswered := setOf("unanswered", t0-2, nil)
	ids := write(t, s, clock.Create, []clock.Op{expiring, unanswered})
	_, err := s.d.db.ExecContext(t.Context(),
		"UPDATE alarm SET state = 2, ring_no = max_rings, rung_at = 1 WHERE id = ?", ids[1])
	ok(t, err, "make an unanswered ring")
	for kind, id := range map[clock.OutcomeKind]int64{clock.TooLate: ids[0], clock.Unacknowledged: ids[1]} {
		for _, judged := range []int64{0, 1} {
			tx, err := s.d.BeginClaim(t.Context(), &store.ClaimRequest{Now: t0})
			ok(t, err, "begin")
			j := store.Judgment{Ended: []store.Ending{{Candidate: store.Candidate{ID: id, Generation: judged},
				Fate: clock.Fate{Outcome: clock.Outcome{Kind: kind}}}}}
			err = tx.EndAlarms(t.Context(), &j)
			tx.Rollback(t.Context())
			if changed := errors.Is(err, engine.ErrReplay); changed != (judged == 0) {
				t.Errorf("outcome %d, generation 1, judged %d: %v", kind, judged, err)
			}
		}
	}
}
