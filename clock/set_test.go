package clock

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestValidateSetNamesTheOffendingField goes through every field of a set: both sides of each boundary.
func TestValidateSetNamesTheOffendingField(t *testing.T) {
	const maxPayload = 1000
	for _, c := range []struct {
		name        string
		change      func(*Set)
		field, code string // empty: valid
	}{
		{"as it is", func(*Set) {}, "", ""},
		{"no application", func(s *Set) { s.Application = "" }, "application", CodeInvalidApplication},
		{"no business id", func(s *Set) { s.BusinessID = "" }, "business_id", CodeInvalidBusinessID},

		{"epoch", func(s *Set) { s.RingAt = 0 }, "", ""},
		{"last instant", func(s *Set) { s.RingAt = MaxInstant }, "", ""},
		{"no time", func(s *Set) { s.RingAt = NoInstant }, "ring_at", CodeRequired},
		{"before the epoch", func(s *Set) { s.RingAt = -2 }, "ring_at", CodeOutOfRange},
		{"after the last instant", func(s *Set) { s.RingAt = MaxInstant + 1 }, "ring_at", CodeOutOfRange},
		{"two times", func(s *Set) { s.Delay.Given = true }, "delay", CodeAmbiguous},
		{"no delay", setDelay(0), "", ""},
		{"longest delay", setDelay(MaxDelay), "", ""},
		{"negative delay", setDelay(-1), "delay", CodeOutOfRange},
		{"delay too long", setDelay(MaxDelay + 1), "delay", CodeOutOfRange},

		{"latest at the ring", func(s *Set) { s.LatestRingAt = s.RingAt }, "", ""},
		{"latest before the ring", func(s *Set) { s.LatestRingAt = s.RingAt - 1 }, "latest_ring_at", CodeOutOfRange},
		{"latest at the end", func(s *Set) { s.LatestRingAt = MaxInstant }, "", ""},
		{"latest after the end", func(s *Set) { s.LatestRingAt = MaxInstant + 1 }, "latest_ring_at", CodeOutOfRange},
		{"latest before the epoch", func(s *Set) { setDelay(0)(s); s.LatestRingAt = -2 }, "latest_ring_at",
			CodeOutOfRange},

		{"empty payload", func(s *Set) { s.Payload = nil }, "", ""},
		{"largest payload", func(s *Set) { s.Payload = make([]byte, maxPayload) }, "", ""},
		{"payload too large", func(s *Set) { s.Payload = make([]byte, maxPayload+1) }, "payload", CodePayloadTooLarge},

		{"no content type", func(s *Set) { s.ContentType = "" }, "content_type", CodeInvalidValue},
		{"longest content type", func(s *Set) { s.ContentType = strings.Repeat("a", 128) }, "", ""},
		{"content type too long", func(s *Set) { s.ContentType = strings.Repeat("a", 129) }, "content_type",
			CodeInvalidValue},
		{"content type with a line end", func(s *Set) { s.ContentType = "a\r\nb" }, "content_type", CodeInvalidValue},
		{"content type with ø", func(s *Set) { s.ContentType = "ø" }, "content_type", CodeInvalidValue},
		{"content type with DEL", func(s *Set) { s.ContentType = "\x7f" }, "content_type", CodeInvalidValue},
		{"content type with invalid UTF-8", func(s *Set) { s.ContentType = "\xff" }, "content_type", CodeInvalidValue},

		{"shortest ack timeout", func(s *Set) { s.AckTimeout = time.Second }, "", ""},
		{"longest ack timeout", func(s *Set) { s.AckTimeout = 24 * time.Hour }, "", ""},
		{"ack timeout too short", func(s *Set) { s.AckTimeout = 999 * time.Millisecond }, "ack_timeout",
			CodeOutOfRange},
		{"ack timeout too long", func(s *Set) { s.AckTimeout = 24*time.Hour + time.Millisecond }, "ack_timeout",
			CodeOutOfRange},
		{"negative ack timeout", func(s *Set) { s.AckTimeout = -time.Second }, "ack_timeout", CodeOutOfRange},
		{"ack timeout not in milliseconds", func(s *Set) { s.AckTimeout = time.Second + 1 }, "ack_timeout",
			CodeOutOfRange},

		{"one ring", func(s *Set) { s.MaxRings = 1 }, "", ""},
		{"most rings", func(s *Set) { s.MaxRings = 1000 }, "", ""},
		{"no rings", func(s *Set) { s.MaxRings = 0 }, "max_rings", CodeOutOfRange},
		{"too many rings", func(s *Set) { s.MaxRings = 1001 }, "max_rings", CodeOutOfRange},

		{"highest priority", func(s *Set) { s.Priority = 9 }, "", ""},
		{"negative priority", func(s *Set) { s.Priority = -1 }, "priority", CodeOutOfRange},
		{"priority too high", func(s *Set) { s.Priority = 10 }, "priority", CodeOutOfRange},

		{"at most once", func(s *Set) { s.Delivery = AtMostOnce }, "", ""},
		{"at most once with an ack timeout", func(s *Set) { s.Delivery, s.AckTimeout = AtMostOnce, time.Minute },
			"delivery", CodeAmbiguous},
		{"delivery that is none", func(s *Set) { s.Delivery = AtMostOnce + 1 }, "delivery", CodeInvalidValue},

		{"longest traceparent", func(s *Set) { s.Traceparent = strings.Repeat("a", 55) }, "", ""},
		{"traceparent too long", func(s *Set) { s.Traceparent = strings.Repeat("a", 56) }, "traceparent",
			CodeInvalidValue},
		{"traceparent with NUL", func(s *Set) { s.Traceparent = "\x00" }, "traceparent", CodeInvalidValue},

		{"shortest wait", setRetry(time.Millisecond, 1, time.Millisecond, 0), "", ""},
		{"longest wait", setRetry(24*time.Hour, 100, 24*time.Hour, 1_000_000), "", ""},
		{"no wait", setRetry(0, 1, time.Second, 0), "retry.initial", CodeOutOfRange},
		{"wait too long", setRetry(24*time.Hour+time.Millisecond, 1, 24*time.Hour, 0), "retry.initial", CodeOutOfRange},
		{"wait not in milliseconds", setRetry(time.Millisecond+1, 1, time.Second, 0), "retry.initial", CodeOutOfRange},
		{"cap below the first wait", setRetry(time.Second, 1, 999*time.Millisecond, 0), "retry.cap", CodeOutOfRange},
		{"cap too long", setRetry(time.Second, 1, 24*time.Hour+time.Millisecond, 0), "retry.cap", CodeOutOfRange},
		{"cap not in milliseconds", setRetry(time.Second, 1, time.Second+1, 0), "retry.cap", CodeOutOfRange},
		{"factor below 1", setRetry(time.Second, 0.999, time.Second, 0), "retry.factor", CodeOutOfRange},
		{"factor above 100", setRetry(time.Second, 100.001, time.Second, 0), "retry.factor", CodeOutOfRange},
		{"factor that is none", setRetry(time.Second, nan(), time.Second, 0), "retry.factor", CodeOutOfRange},
		{"no limit", setRetry(time.Second, 1, time.Second, NoLimit), "", ""},
		{"limit below none", setRetry(time.Second, 1, time.Second, NoLimit-1), "retry.limit", CodeOutOfRange},
		{"limit too high", setRetry(time.Second, 1, time.Second, 1_000_001), "retry.limit", CodeOutOfRange},
	} {
		s := testSet("4711")
		c.change(s)
		err := s.Validate(maxPayload)
		if field, code := invalidField(err); field != c.field || code != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%s: got %q, %q (%v), want %q, %q", c.name, field, code, err, c.field, c.code)
		}
		if tooLarge := errors.Is(err, ErrTooLarge); tooLarge != (c.code == CodePayloadTooLarge) {
			t.Errorf("%s: too large is %v", c.name, tooLarge)
		}
	}
}

func setDelay(span time.Duration) func(*Set) {
	return func(s *Set) { s.RingAt, s.Delay = NoInstant, Delay{Given: true, Span: span} }
}

func setRetry(initial time.Duration, factor float64, longest time.Duration, limit int) func(*Set) {
	return func(s *Set) { s.Retry = RetryPolicy{Initial: initial, Factor: factor, Cap: longest, Limit: limit} }
}

func nan() float64 {
	zero := 0.0
	return zero / zero
}
