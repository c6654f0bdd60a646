package clock

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// quotaTable is a QuotaKeeper with a record of its calls.
type quotaTable struct {
	full     *Error // nil: there is room
	refusal  error
	admitted []string
	verdicts []Verdict
	given    int // calls of GiveBack
}

func (q *quotaTable) Admit(op *Op, quotas *Quotas) (Admission, error) {
	q.admitted = append(q.admitted, op.Name())
	a := Admission{Ended: func(d *Decision) { q.verdicts = append(q.verdicts, d.Verdict) }}
	if op.Set != nil {
		a.Room = q
	}
	if q.refusal != nil {
		return Admission{}, q.refusal
	}
	return a, nil
}

func (q *quotaTable) Take() *Error { return q.full }

func (q *quotaTable) GiveBack() { q.given++ }

// limited gives the application shop quotas.
func (s *testService) limited(quotas Quotas) *quotaTable {
	table := &quotaTable{}
	s.quotas = table
	s.defaults = func(application string) *Defaults {
		if application != "shop" {
			return nil
		}
		return &Defaults{Quotas: quotas}
	}
	return table
}

// A full application adds no alarm. It changes and ends the alarms that it has.
func TestFullApplicationsChangeTheirAlarms(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		table := s.limited(Quotas{PendingAlarms: 1})
		must(t, s.Submit(Op{Set: testSet("a")}))
		full := &Error{Kind: ErrLimited, Code: CodeQuotaPending, Detail: "full"}
		table.full = full
		again := testSet("a")
		if d := must(t, s.Submit(Op{Set: again})); d.Verdict != Keep {
			t.Errorf("a repeated set: %s", d.Verdict)
		}
		later := testSet("a")
		later.RingAt++
		if d := must(t, s.Submit(Op{Set: later})); d.Verdict != Replace || later.Room != nil || table.given != 2 {
			t.Errorf("a set of another time: %s, room given back %d times", d.Verdict, table.given)
		}
		if code := codeOf(t, s.Submit(Op{Set: testSet("b")})); code != CodeQuotaPending {
			t.Errorf("another alarm: %s", code)
		}
		must(t, s.Submit(Op{Cancel: &Cancel{Key: again.Key}}))
		if code := codeOf(t, s.Submit(Op{Set: testSet("a")})); code != CodeQuotaPending {
			t.Errorf("a set of a cancelled alarm: %s", code)
		}
		table.full = nil
		if d := must(t, s.Submit(Op{Set: testSet("a")})); d.Verdict != Rearm {
			t.Errorf("with room again: %s", d.Verdict)
		}
		want := []Verdict{Create, Keep, Replace, Refuse, Disarm, Refuse, Rearm}
		if !slices.Equal(table.verdicts, want) {
			t.Errorf("verdicts %v, want %v", table.verdicts, want)
		}
	})
}

// Quotas are asked for valid sets and cancels of applications that have some, and for nothing else.
func TestQuotasAreAskedOnceForEachOp(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		table := s.limited(Quotas{SetsPerSecond: 1, PayloadBytes: 8})
		other := testSet("a")
		other.Application = "bank"
		must(t, s.Submit(Op{Set: other}))
		wrong := testSet("a")
		wrong.MaxRings = 0
		if code := codeOf(t, s.Submit(Op{Set: wrong})); code != CodeOutOfRange {
			t.Errorf("a set that is not valid: %s", code)
		}
		large := testSet("a")
		large.PayloadKind, large.Payload = Text, []byte("123456789")
		_, err := s.Submit(Op{Set: large}).Wait(t.Context())
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "9 bytes; the quota payload_bytes of application \"shop\" is 8") {
			t.Errorf("a large payload: %v", err)
		}
		if len(table.admitted) != 0 {
			t.Errorf("asked for %v", table.admitted)
		}
		large.Payload = large.Payload[:8]
		must(t, s.Submit(Op{Set: large}))
		must(t, s.Submit(Op{Cancel: &Cancel{Key: large.Key}}))
		table.refusal = &Error{Kind: ErrLimited, Code: CodeQuotaSets}
		if code := codeOf(t, s.Submit(Op{Set: large})); code != CodeQuotaSets {
			t.Errorf("too many sets: %s", code)
		}
		if got := strings.Join(table.admitted, " "); got != "set cancel set" || len(table.verdicts) != 2 {
			t.Errorf("asked for %s, told %v", got, table.verdicts)
		}
		s.quotas = nil
		large.Payload = []byte("123456789")
		if code := codeOf(t, s.Submit(Op{Set: large})); code != CodePayloadTooLarge {
			t.Errorf("a large payload without a keeper: %s", code)
		}
	})
}

func TestQuotasHaveBounds(t *testing.T) {
	for _, c := range []struct {
		quotas Quotas
		field  string
	}{
		{Quotas{}, ""}, {Quotas{MaxPendingAlarms, MaxSetsPerSecond, MaxStoredPayload}, ""},
		{Quotas{PendingAlarms: -1}, "pending_alarms"}, {Quotas{PendingAlarms: MaxPendingAlarms + 1}, "pending_alarms"},
		{Quotas{SetsPerSecond: MaxSetsPerSecond + 1}, "sets_per_second"},
		{Quotas{PayloadBytes: MaxStoredPayload + 1}, "payload_bytes"},
	} {
		err := c.quotas.Validate()
		if field, code := invalidField(err); field != c.field || (code == CodeOutOfRange) != (c.field != "") {
			t.Errorf("%+v: %v", c.quotas, err)
		}
	}
}
