package ring

import "testing"

func TestHandedMemoryIsBounded(t *testing.T) {
	var h Handed
	take := func(application string, bytes int, want bool) {
		t.Helper()
		if h.Take(application, bytes) != want {
			t.Errorf("%s takes %d bytes: %t", application, bytes, !want)
		}
	}
	const part = HandedBytes / 4
	take("large", HandedBytes+1, true) // alone
	take("shop", 1, false)
	if !h.Refused("shop") || h.Refused("bank") {
		t.Error("only shop has found no memory")
	}
	if !h.Give("large", HandedBytes+1) || h.Refused("shop") {
		t.Error("a give does not tell that shop waits, or shop is still refused")
	}
	take("shop", part+1, true) // a payload larger than the part
	take("shop", 1, false)
	for _, application := range []string{"a", "b"} {
		take(application, part, true)
	}
	take("c", part, false)
	take("c", part-1, true)
	if !h.Give("shop", part+1) || h.Give("a", part) {
		t.Error("only the first give is awaited")
	}
	take("shop", part, true)
}
