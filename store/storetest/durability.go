package storetest

import (
	"context"
	"testing"

	"github.com/clockd/clockd/store"
)

// testDurability demands complete findings with a name, a value and a sentence, in the same order each time.
func testDurability(t *testing.T, f *fixture) {
	found := f.durability()
	if len(found) < 2 {
		t.Fatalf("findings %+v", found)
	}
	for _, x := range found {
		if x.Name == "" || x.Value == "" || x.Detail == "" {
			t.Errorf("an incomplete finding: %+v", x)
		}
		t.Logf("%s = %s: safe %t: %s", x.Name, x.Value, x.Safe, x.Detail)
	}
	same(t, "found again", f.durability(), found)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := f.Durability(ctx); err == nil {
		t.Error("no error with a cancelled context")
	}
}

func (f *fixture) durability() []store.Finding {
	f.t.Helper()
	found, err := f.Durability(f.t.Context())
	ok(f.t, err, "durability")
	return found
}
