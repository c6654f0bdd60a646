package clock

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestSameComparesEverything(t *testing.T) {
	a := testContent()
	b := testContent()
	if !a.Same(&b) {
		t.Fatal("equal contents are not the same")
	}
	for name, change := range map[string]func(*Content){
		"ring_at":        func(c *Content) { c.RingAt++ },
		"latest_ring_at": func(c *Content) { c.LatestRingAt = c.RingAt },
		"payload":        func(c *Content) { c.Payload = []byte(`{"a": 1}`) },
		"payload_kind":   func(c *Content) { c.PayloadKind = Text },
		"content_type":   func(c *Content) { c.ContentType = "application/JSON" },
		"retry.initial":  func(c *Content) { c.Retry.Initial++ },
		"retry.factor":   func(c *Content) { c.Retry.Factor = 1 },
		"retry.cap":      func(c *Content) { c.Retry.Cap++ },
		"retry.limit":    func(c *Content) { c.Retry.Limit = 0 },
		"ack_timeout":    func(c *Content) { c.AckTimeout = time.Second },
		"max_rings":      func(c *Content) { c.MaxRings++ },
		"priority":       func(c *Content) { c.Priority++ },
		"delivery":       func(c *Content) { c.Delivery = AtMostOnce },
	} {
		c := testContent()
		change(&c)
		if a.Same(&c) || c.Same(&a) {
			t.Errorf("a different %s is the same", name)
		}
	}
}

func TestSameTakesNoPayloadAsEmpty(t *testing.T) {
	a, b := testContent(), testContent()
	a.Payload, b.Payload = nil, []byte{}
	if !a.Same(&b) {
		t.Error("nil and empty payload differ, but stores do not distinguish them")
	}
}

func TestStatesHaveFixedNumbersAndNames(t *testing.T) {
	over := map[State]bool{Rung: true, Expired: true, Dead: true, Cancelled: true}
	for i, s := range States() {
		if int(s) != i+1 {
			t.Errorf("%s has number %d, want %d: numbers are stored", s, s, i+1)
		}
		if got, err := ParseState(s.String()); got != s || err != nil {
			t.Errorf("ParseState(%q) = %v, %v", s.String(), got, err)
		}
		if b, err := json.Marshal(s); string(b) != `"`+s.String()+`"` || err != nil {
			t.Errorf("json of %s is %s, %v", s, b, err)
		}
		if s.Over() != over[s] {
			t.Errorf("%s.Over() = %v", s, s.Over())
		}
	}
	for _, bad := range []string{"", "Scheduled", "state(0)", "rung "} {
		if _, err := ParseState(bad); err == nil {
			t.Errorf("ParseState(%q) is accepted", bad)
		}
	}
	for _, s := range []State{0, -1, 8} {
		if got, want := s.String(), fmt.Sprintf("state(%d)", int8(s)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDefaultContentTypeFollowsThePayloadKind(t *testing.T) {
	for kind, want := range map[PayloadKind]string{
		NoPayload: "application/octet-stream", JSON: "application/json",
		Text: "text/plain; charset=utf-8", Binary: "application/octet-stream",
	} {
		if got := kind.DefaultContentType(); got != want {
			t.Errorf("kind %d: %q, want %q", kind, got, want)
		}
	}
}

func TestErrorUnwrapsToKindAndCause(t *testing.T) {
	cause := errors.New("connection reset")
	for kind, err := range map[error]error{ErrUnavailable: Unavailable(cause), ErrUnconfirmed: Unconfirmed(cause)} {
		var e *Error
		if !errors.Is(err, kind) || !errors.Is(err, cause) || !errors.As(err, &e) || e.RetryAfter <= 0 {
			t.Errorf("%v: is not %v with cause and RetryAfter", err, kind)
		}
		for _, other := range []error{ErrInvalid, ErrTooLarge, ErrNotFound, ErrConflict, ErrPrecondition, ErrUnavailable, ErrUnconfirmed} {
			if other != kind && errors.Is(err, other) {
				t.Errorf("%v is %v too", err, other)
			}
		}
	}
	plain := Invalid(CodeRequired, "ring_at", "give ring_at")
	if plain.Error() != "give ring_at" || !errors.Is(plain, ErrInvalid) {
		t.Errorf("got %v", plain)
	}
}
