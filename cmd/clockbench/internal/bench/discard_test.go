package bench

import (
	"errors"
	"testing"

	"github.com/clockd/clockd/clock"
)

// The ceiling of single requests must do all the work before the store.
func TestDiscardValidatesAndDecides(t *testing.T) {
	key := clock.Key{Application: application, BusinessID: "single-1"}
	set := func(change func(*clock.Set)) clock.Op {
		s := &clock.Set{Key: key, Content: clock.Content{
			RingAt: 1, LatestRingAt: clock.NoInstant, Payload: barePayload, PayloadKind: clock.JSON,
			ContentType: contentType,
			Retry:       clock.DefaultRetryPolicy(), MaxRings: clock.DefaultMaxRings,
		}}
		change(s)
		return clock.Op{Set: s}
	}
	for _, test := range []struct {
		name    string
		op      clock.Op
		verdict clock.Verdict
		state   clock.State
		err     error
	}{
		{"set", set(func(*clock.Set) {}), clock.Create, clock.Scheduled, nil},
		{"invalid set", set(func(s *clock.Set) { s.Priority = 11 }), clock.Refuse, 0, clock.ErrInvalid},
		{"cancel", clock.Op{Cancel: &clock.Cancel{Key: key}}, clock.Disarm, clock.Cancelled, nil},
	} {
		d, err := Discard{}.Submit(t.Context(), test.op).Wait(t.Context())
		if d.Verdict != test.verdict || d.Alarm.State != test.state || !errors.Is(err, test.err) {
			t.Errorf("%s: %v, %v, %v", test.name, d.Verdict, d.Alarm.State, err)
		}
	}
}
