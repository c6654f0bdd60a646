package sqlite

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
)

// TestAmendSkipsChangedRow: an answer rewrites its row only while the row has the generation, state and ring_no that
// were read.
func TestAmendSkipsChangedRow(t *testing.T) {
	s := newStore(t, filepath.Join(t.TempDir(), "clockd.db"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.Migrate(t.Context()))
	must(s.Check(t.Context()))
	k := clock.Key{Application: "shop", BusinessID: "amend"}
	set := &clock.Set{Key: k,
		Content: clock.Content{RingAt: 1, LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(),
			MaxRings: 1}}
	_, err := s.Write(t.Context(), clock.WriteRequest{Now: 1, Ops: []clock.Op{{Set: set}}})
	must(err)
	a, err := s.Get(t.Context(), k)
	must(err)
	errUndo := errors.New("undo")
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
		var n int
		err := engine.InTx(t.Context(), s.d.begin, func(tx *writeTx) (err error) {
			n, err = (&groupTx{writeTx: tx, shards: s.ShardCount()}).Update(t.Context(),
				[]engine.Change{{Old: &old, New: &changed}})
			return errors.Join(err, errUndo)
		})
		if !errors.Is(err, errUndo) || (n == 1) != (name == "nothing") {
			t.Errorf("%d rows rewritten where %s differs: %v", n, name, err)
		}
	}
}
