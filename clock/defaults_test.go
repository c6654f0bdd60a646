package clock

import (
	"testing"
	"time"
)

func TestEveryTargetKindHasAName(t *testing.T) {
	for _, k := range TargetKinds() {
		if parsed, err := ParseTargetKind(k.String()); err != nil || parsed != k || k.String() == "" {
			t.Errorf("kind %d is named %q and read as %d, %v", k, k, parsed, err)
		}
	}
	if len(TargetKinds()) != len(targetNames) {
		t.Error("a list lacks an element of its map")
	}
}

// defaultedSet returns a set that names no option, with the defaults.
func defaultedSet(defaults *Defaults) *Set {
	s := &Set{Key: Key{Application: "shop", BusinessID: "1"}, Content: Content{
		RingAt: 5000, LatestRingAt: NoInstant, ContentType: "text/plain", Retry: DefaultRetryPolicy(),
		MaxRings: DefaultMaxRings,
	}, Omitted: RetryOption | AckTimeoutOption | MaxRingsOption}
	return s.withDefaults(defaults)
}

func TestDefaultsFillOmittedOptionsOnly(t *testing.T) {
	slow := RetryPolicy{Initial: time.Minute, Factor: 1, Cap: time.Hour, Limit: 7}
	defaults := &Defaults{Retry: &slow, AckTimeout: new(30 * time.Second), MaxRings: new(3)}
	given := &Set{Content: Content{Retry: DefaultRetryPolicy(), MaxRings: 9}}
	if r := given.withDefaults(defaults); r.Retry != DefaultRetryPolicy() || r.AckTimeout != 0 || r.MaxRings != 9 ||
		r.Defaulted != 0 {
		t.Errorf("a set that names all options: %+v", r)
	}
	omitted := &Set{Content: given.Content, Omitted: RetryOption | AckTimeoutOption | MaxRingsOption}
	if r := omitted.withDefaults(defaults); r.Retry != slow || r.AckTimeout != 30*time.Second || r.MaxRings != 3 ||
		omitted.MaxRings != 9 {
		t.Errorf("a set that names no option: %+v", r)
	}
	omitted.Delivery = AtMostOnce
	if r := omitted.withDefaults(defaults); r.AckTimeout != 0 || r.Retry != slow {
		t.Errorf("a set at most once: %+v", r)
	}
}

// A repeated set must not ring twice because the defaults have changed meanwhile. A waiting alarm gets the new
// defaults.
func TestRepeatedSetAfterAChangeOfDefaults(t *testing.T) {
	before, after := &Defaults{}, &Defaults{AckTimeout: new(time.Minute), MaxRings: new(2)}
	row := Op{Set: defaultedSet(before)}.Decide(nil, 1000).Alarm
	if d := (Op{Set: defaultedSet(after)}).Decide(&row, 2000); d.Verdict != Replace ||
		d.Alarm.AckTimeout != time.Minute {
		t.Errorf("a waiting alarm: %s, %+v", d.Verdict, d.Alarm.Content)
	}
	for _, state := range []State{Rung, Expired, Dead} {
		over := row
		over.State, over.NextTryTime, over.FinishedAt = state, NoInstant, 3000
		if d := (Op{Set: defaultedSet(after)}).Decide(&over, 4000); d.Verdict != Keep {
			t.Errorf("an alarm that is %s: %s", state, d.Verdict)
		}
		named := defaultedSet(after)
		named.Defaulted = 0
		if d := (Op{Set: named}).Decide(&over, 4000); d.Verdict != Rearm {
			t.Errorf("an alarm that is %s, and a set that names its options: %s", state, d.Verdict)
		}
		other := defaultedSet(after)
		other.RingAt++
		if d := (Op{Set: other}).Decide(&over, 4000); d.Verdict != Rearm {
			t.Errorf("an alarm that is %s, and a set with another time: %s", state, d.Verdict)
		}
	}
	repeat := defaultedSet(after)
	repeat.If = Condition{Kind: AtGeneration, Generation: row.Generation - 1}
	if d := (Op{Set: repeat}).Decide(&row, 2000); d.Verdict != Keep {
		t.Errorf("the repeat of a conditional set: %s", d.Verdict)
	}
}
