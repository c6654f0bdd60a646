package sqlite

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/clockd/clockd/clock"
)

// Each statement is prepared once, also by many callers at once, and goes on to work when another process changes the
// table.
func TestStatementsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clockd.db")
	s := migrated(t, path)
	key := clock.Key{Application: "shop", BusinessID: "a"}
	round := func() {
		t.Helper()
		set := clock.Set{Key: key,
			Content: clock.Content{RingAt: 2e12, LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(),
				MaxRings: 1}}
		for _, op := range []clock.Op{{Set: &set}, {Cancel: &clock.Cancel{Key: key}}} {
			_, err := s.Write(t.Context(), clock.WriteRequest{Now: 1e12, Ops: []clock.Op{op}})
			ok(t, err, "write")
		}
		var readers sync.WaitGroup
		for range 20 {
			readers.Go(func() {
				_, alarm := s.Get(t.Context(), key)
				_, now := s.d.ReadTime(t.Context())
				if err := errors.Join(alarm, now); err != nil {
					t.Error(err)
				}
			})
		}
		readers.Wait()
	}
	for range 10 { // each transaction prepares one statement that an earlier one wanted
		round()
	}
	kept := map[*statements]int{s.d.writing: 0, s.d.reading: 0, s.d.loading: 0}
	for k := range kept {
		if kept[k] = len(k.prepared); kept[k] == 0 {
			t.Error("a pool keeps no statement")
		}
	}
	round()
	_, err := rawSQL(t, path).ExecContext(t.Context(), "ALTER TABLE alarm ADD COLUMN another INTEGER")
	ok(t, err, "change the table")
	round()
	for k, n := range kept {
		if len(k.prepared) != n || len(k.wanted) != 0 {
			t.Errorf("%d statements are kept and %d wanted, %d were kept before", len(k.prepared), len(k.wanted), n)
		}
	}
}
