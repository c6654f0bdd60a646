package clock

import "testing"

func TestParseRingIDReadsOnlyMessageIDs(t *testing.T) {
	for s, want := range map[string]RingID{
		"1.1.1": {1, 1, 1}, "9223372036854775807.2.2147483647": {1<<63 - 1, 2, 1<<31 - 1},
	} {
		if got, err := ParseRingID(s); got != want || err != nil || got.String() != s {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{
		"", "1", "1.1", "1.1.1.1", "0.1.1", "1.0.1", "1.1.0", "-1.1.1", "+1.1.1", "01.1.1", "1.1.01", "1.1.1 ",
		" 1.1.1", "1..1", "1.1.", "a.1.1", "1,1,1",
		"9223372036854775808.1.1", "1.1.2147483648", "1.1.1\n", "0x1.1.1", "1_0.1.1",
	} {
		r, err := ParseRingID(s)
		if field, code := invalidField(err); field != "message_id" || code != CodeInvalidValue || r != (RingID{}) {
			t.Errorf("%q: %+v, %v", s, r, err)
		}
	}
}
