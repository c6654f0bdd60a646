package postgresql

import (
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
)

// TestAmendSkipsChangedRow: an answer rewrites its row only while the row has the generation, state and ring_no that
// were read.
func TestAmendSkipsChangedRow(t *testing.T) {
	s := migrated(t)
	k := clock.Key{Application: "shop", BusinessID: "amend"}
	set := &clock.Set{Key: k,
		Content: clock.Content{RingAt: 1, LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(),
			MaxRings: 1}}
	_, err := s.Write(t.Context(), clock.WriteRequest{Now: 1, Ops: []clock.Op{{Set: set}}})
	ok(t, err, "write")
	a, err := s.Get(t.Context(), k)
	ok(t, err, "get")
	for name, read := range map[string]func(a *clock.Alarm){
		"ring_no":    func(a *clock.Alarm) { a.RingNo++ },
		"generation": func(a *clock.Alarm) { a.Generation++ },
		"state":      func(a *clock.Alarm) { a.State = clock.Ringing },
		"nothing":    func(*clock.Alarm) {},
	} {
		old := *a
		read(&old)
		changed := old
		changed.Answer = clock.Ack
		tx, err := begin(t.Context(), s.d.pool, 0)
		ok(t, err, "begin")
		n, err := (&writeTx{tx: tx, q: s.d.q}).Update(t.Context(), []engine.Change{{Old: &old, New: &changed}})
		tx.close(t.Context())
		ok(t, err, "update")
		if (n == 1) != (name == "nothing") {
			t.Errorf("%d rows rewritten where %s differs", n, name)
		}
	}
}
