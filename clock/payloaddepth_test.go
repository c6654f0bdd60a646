package clock

import (
	"errors"
	"strings"
	"testing"
)

func TestPayloadsThatNestTooDeepAreRefused(t *testing.T) {
	nested := func(n int, inner string) string {
		return strings.Repeat(`{"a":[`, n/2) + inner + strings.Repeat(`]}`, n/2)
	}
	for name, c := range map[string]struct {
		payload string
		kind    PayloadKind
		refused bool
	}{
		"deepest":    {nested(MaxPayloadDepth, "1"), JSON, false},
		"one deeper": {nested(MaxPayloadDepth, "[]"), JSON, true},
		"deep, after wide": {"[" + strings.Repeat("[],", MaxPayloadDepth) + nested(MaxPayloadDepth, "1") + "]",
			JSON, true},
		"wide": {"[" + strings.Repeat(`{"a":[]},`, 4*MaxPayloadDepth) + "1]", JSON, false},
		"brackets in strings": {`["` + strings.Repeat(`[{\"`,
			4*MaxPayloadDepth) + `", "\\", [` + `"` + strings.Repeat("{", MaxPayloadDepth) + `"]]`, JSON, false},
		"deep, after such strings": {`["\\\"[", ` + nested(MaxPayloadDepth, "1") + "]", JSON, true},
		"text":                     {nested(4*MaxPayloadDepth, "1"), Text, false},
	} {
		s := EmptySet()
		s.Key, s.RingAt, s.Payload, s.PayloadKind, s.ContentType = Key{"shop", "x"}, 1, []byte(c.payload), c.kind, "text/plain"
		err := s.Validate(DefaultMaxPayload)
		var got string
		if e, is := errors.AsType[*Error](err); is {
			got = e.Code + " " + e.Field
		}
		want := ""
		if c.refused {
			want = CodeOutOfRange + " payload"
		}
		if got != want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, want)
		}
	}
}

// Most payloads have too few brackets to be looked at. The wide one has more.
func BenchmarkNestsTooDeep(b *testing.B) {
	for name, payload := range map[string]string{
		"small": `{"order":4711,"items":[1,2,3]}`, "64KiB": `{"text":"` + strings.Repeat("x", 64<<10) + `"}`,
		"64KiB wide": "[" + strings.Repeat(`{"id":4711,"name":"a name"},`, (64<<10)/28) + "1]",
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(payload)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				nestsTooDeep(text)
			}
		})
	}
}
