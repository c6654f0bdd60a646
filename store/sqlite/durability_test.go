package sqlite

import (
	"path/filepath"
	"testing"
)

func TestLostSyncIsFound(t *testing.T) {
	s := migrated(t, filepath.Join(t.TempDir(), "clockd.db"))
	for pragma, unsafe := range map[string]string{"synchronous = NORMAL": "synchronous", "synchronous = FULL": ""} {
		if _, err := s.d.writer.ExecContext(t.Context(), "PRAGMA "+pragma); err != nil {
			t.Fatal(err)
		}
		found, err := s.Durability(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if f.Safe != (f.Name != unsafe) {
				t.Errorf("%s: %+v", pragma, f)
			}
		}
	}
}
