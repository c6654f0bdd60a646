package mysql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// The version of a row is the text that LockDue packs.
func TestVersionTextIsPackedText(t *testing.T) {
	const version = "7 3 2 1 0 1 -1 1500 1400"
	r, _, err := engine.ReadDue("1450 " + version + " 63 5 60000 0 9 0 0 1000 -1 4 shop 1 a 0  0  0  0  0  0  0  0  0  1 0 ")
	ok(t, err, "read")
	if r.Unreadable != "" || versionText(&r) != version {
		t.Errorf("%q, %s", versionText(&r), r.Unreadable)
	}
}

// FuzzUnpackEntry: no entry makes unpackEntry panic.
func FuzzUnpackEntry(f *testing.F) {
	f.Add("1 1000 9 4 shop")
	f.Fuzz(func(t *testing.T, entry string) {
		if d, err := unpackEntry(entry); err == nil && !strings.HasSuffix(entry, d.Application) {
			t.Errorf("%q does not end with %q", entry, d.Application)
		}
	})
}

// A malformed entry is an error.
func TestUnpackRefusesMalformedEntries(t *testing.T) {
	for _, entry := range []string{"", "1", "1 2 x 4 shop", "1 2"} {
		if _, err := unpackEntry(entry); err == nil {
			t.Errorf("%q was read", entry)
		}
	}
}

// TestNullColumnIsUnreadable makes a column nullable and claims two rows, the first with NULL there. The first row is
// dead; the second rings.
func TestNullColumnIsUnreadable(t *testing.T) {
	s := migrated(t)
	ids := write(t, s, clock.Create, setsOf("null", 2, t0, []byte("x")))
	for _, statement := range []string{
		"ALTER TABLE alarm MODIFY retry_times INT NULL",
		fmt.Sprintf("UPDATE alarm SET retry_times = NULL WHERE id = %d", ids[0]),
	} {
		_, err := s.d.upkeep.ExecContext(t.Context(), statement)
		ok(t, err, statement)
	}
	c, err := s.Claim(t.Context(), store.ClaimRequest{IDs: ids, Now: t0, ClaimID: "c", MaxBytes: 1})
	ok(t, err, "claim")
	if len(c.Rings) != 1 || len(c.Ended) != 1 || c.Ended[0].State != clock.Dead {
		t.Fatalf("%d rings, ended %v", len(c.Rings), c.Ended)
	}
	ok(t, c.Settler.Release(t.Context()), "release")
	var state int
	var reason string
	row := s.d.upkeep.QueryRowContext(t.Context(), "SELECT state, last_error FROM alarm WHERE id = ?", ids[0])
	ok(t, row.Scan(&state, &reason), "read the row")
	if state != int(clock.Dead) || !strings.Contains(reason, "NULL") {
		t.Errorf("state %d, %q", state, reason)
	}
}
