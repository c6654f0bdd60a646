package clock_test

import (
	"testing"

	"github.com/clockd/clockd/clock"
)

// cursorIDs are seeds: business ids with characters that a cursor must keep.
var cursorIDs = []string{"a", "a/b", "a b", "100%", "a+b", "Größe", "a\\b", `"`}

// duePosition is a position in a list by due time, with the largest values.
var duePosition = clock.ListPosition{DueTime: clock.MaxInstant, DueRank: 1<<15 - 1, DueID: 1<<63 - 1}

func FuzzCursor(f *testing.F) {
	for _, id := range cursorIDs {
		f.Add(clock.EncodeCursor("shop", clock.ListPosition{BusinessID: id}))
	}
	f.Add(clock.EncodeCursor("shop", duePosition))
	f.Add("")
	f.Add(clock.EncodeCursor("", clock.ListPosition{Application: "shop", BusinessID: "a"}))
	f.Add("AQ")
	f.Fuzz(func(t *testing.T, cursor string) {
		for _, application := range []string{"shop", ""} {
			p, err := clock.DecodeCursor(application, cursor)
			if err != nil {
				continue
			}
			if again := clock.EncodeCursor(application, p); again != cursor {
				t.Fatalf("%q and %q both stand for %+v", cursor, again, p)
			}
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
		p := clock.ListPosition{BusinessID: id}
		if got, err := clock.DecodeCursor(app, clock.EncodeCursor(app, p)); got != p || err != nil {
			t.Fatalf("%+v came back as %+v, %v", p, got, err)
		}
	})
}

func TestCursorsOfAllApplicationsComeBack(t *testing.T) {
	for _, p := range []clock.ListPosition{{Application: "shop"}, {Application: "shop", BusinessID: "a/b ü"}} {
		cursor := clock.EncodeCursor("", p)
		if got, err := clock.DecodeCursor("", cursor); got != p || err != nil {
			t.Errorf("%+v came back as %+v, %v", p, got, err)
		}
		for _, wrong := range []string{cursor[:len(cursor)-1], "B" + cursor[1:], cursor + "AA"} {
			if got, err := clock.DecodeCursor("", wrong); err == nil {
				t.Errorf("%q was read as %+v", wrong, got)
			}
		}
		if got, err := clock.DecodeCursor("shop", cursor); err == nil {
			t.Errorf("in a list of one application %q was read as %+v", cursor, got)
		}
	}
	for _, cursor := range []string{
		clock.EncodeCursor("", clock.ListPosition{Application: "a b"}),
		clock.EncodeCursor("", clock.ListPosition{Application: "shop", BusinessID: "a\x00"}),
		clock.EncodeCursor("shop", clock.ListPosition{BusinessID: "a"}),
	} {
		if got, err := clock.DecodeCursor("", cursor); err == nil {
			t.Errorf("%q was read as %+v", cursor, got)
		}
	}
}

func TestCursorsOfDueListsComeBack(t *testing.T) {
	for _, p := range []clock.ListPosition{duePosition, {DueTime: 1}, {DueRank: 1}, {DueID: 1}} {
		cursor := clock.EncodeCursor("shop", p)
		if got, err := clock.DecodeCursor("shop", cursor); got != p || err != nil {
			t.Errorf("%+v came back as %+v, %v", p, got, err)
		}
		for _, wrong := range []string{cursor[:len(cursor)-1], "B" + cursor[1:], cursor + "AA"} {
			if got, err := clock.DecodeCursor("shop", wrong); err == nil {
				t.Errorf("%q was read as %+v", wrong, got)
			}
		}
		if _, err := clock.DecodeCursor("bank", cursor); err == nil {
			t.Error("a cursor was read for another application")
		}
	}
}
