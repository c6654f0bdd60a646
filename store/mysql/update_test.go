package mysql

import (
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
)

// TestAmendSkipsChangedRow: an answer rewrites its row only while the row has the generation, state and ring_no that
// were read.
func TestAmendSkipsChangedRow(t *testing.T) {
	s := migrated(t)
	ops := setsOf("amend", 1, t0, nil)
	id := write(t, s, clock.Create, ops)[0]
	a, err := s.Get(t.Context(), ops[0].Key())
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
		tx, err := s.d.begin(t.Context(), s.d.writes)
		ok(t, err, "begin")
		n, err := (&writeTx{tx: tx, d: s.d, server: s.d.known()}).Update(t.Context(),
			[]engine.Change{{Old: &old, New: &changed}})
		tx.rollback(t.Context())
		ok(t, err, "update")
		if (n == 1) != (name == "nothing") {
			t.Errorf("%d rows of alarm %d rewritten where %s differs", n, id, name)
		}
	}
}
