package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/clockd/clockd/store"
)

// SQLite has no last id of a table that never had a row. The first id after SkipIDs is still beyond the skipped ones.
func TestIDsAreSkippedInAnEmptyDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clockd.db")
	s := migrated(t, path)
	ok(t, s.SkipIDs(t.Context()), "skip ids")
	var last int64
	ok(t, rawSQL(t, path).QueryRowContext(t.Context(), "SELECT seq FROM sqlite_sequence WHERE name = 'alarm'").Scan(&last), "read the last id")
	if last != store.SkippedIDs {
		t.Errorf("the last id is %d", last)
	}
}
