package clock_test

import (
	"testing"

	"github.com/clockd/clockd/clock"
)

// cursorIDs are seeds: business ids with characters that a cursor must keep.
var cursorIDs = []string{"a", "a/b", "a b", "100%", "a+b", "Größe", "a\\b", `"`}

func FuzzCursor(f *testing.F) {
	for _, id := range cursorIDs {
		f.Add(clock.EncodeCursor(clock.Key{Application: "shop", BusinessID: id}))
	}
	f.Add("")
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, cursor string) {
		id, err := clock.DecodeCursor("shop", cursor)
		if err != nil {
			return
		}
		if k := (clock.Key{Application: "shop", BusinessID: id}); clock.EncodeCursor(k) != cursor {
			t.Fatalf("%q and %q both stand for %q", cursor, clock.EncodeCursor(k), id)
		}
	})
}

func FuzzCursorRoundTrip(f *testing.F) {
	for _, id := range cursorIDs {
		f.Add("shop", id)
	}
	f.Fuzz(func(t *testing.T, app, id string) {
		k := clock.Key{Application: app, BusinessID: id}
		if k.Validate() != nil {
			return
		}
		if got, err := clock.DecodeCursor(app, clock.EncodeCursor(k)); got != id || err != nil {
			t.Fatalf("%q came back as %q, %v", id, got, err)
		}
	})
}
