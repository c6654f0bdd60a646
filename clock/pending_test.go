package clock

import (
	"context"
	"errors"
	"testing"
)

func TestPendingWaitPrefersTheDecisionToTheEndOfItsContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p := newPending(t.Context(), Op{Set: testSet("a")})
	if _, err := p.Wait(ended); !errors.Is(err, ErrUnconfirmed) || !errors.Is(err, context.Canceled) {
		t.Errorf("without a decision: %v", err)
	}
	p.decide(&Decision{Verdict: Create})
	for range 100 {
		if d, err := p.Wait(ended); err != nil || d.Verdict != Create {
			t.Fatalf("with a decision: %v, %v", d.Verdict, err)
		}
	}
}

// The decision for a caller that reads no payload holds none, neither in the alarm nor in the error.
func TestBriefAnswersHoldNoPayload(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		absent := testSet("a")
		absent.If.Kind = Absent
		if d := must(t, s.Submit(Op{Set: absent, WithoutPayload: true})); d.Verdict != Create || d.Alarm.Payload != nil {
			t.Errorf("got %s and %q", d.Verdict, d.Alarm.Payload)
		}
		d, err := s.Submit(Op{Set: absent, WithoutPayload: true}).Wait(t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeConditionFailed || e.Alarm.Payload != nil || e.Alarm.Generation != 1 ||
			d.Alarm.Payload != nil {
			t.Errorf("refused with %+v", err)
		}
		if stored, err := s.Get(t.Context(), absent.Key); err != nil || len(stored.Payload) == 0 {
			t.Errorf("stored %+v, %v", stored, err)
		}
		if d := must(t, s.cancel("a")); len(d.Alarm.Payload) == 0 {
			t.Error("a caller that reads the payload gets none")
		}
	})
}
