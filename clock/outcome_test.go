package clock

import "testing"

func TestOutcomesHaveFixedNumbersAndNames(t *testing.T) {
	kinds := append(OutcomeKinds(), Released, Buried, Unacknowledged, TooLate, Unreadable, Awaited)
	for i, want := range []string{
		"confirmed", "returned", "nacked", "in_doubt", "refused", "unsent", "untaken", "released", "buried",
		"unacknowledged",
		"too_late", "unreadable", "awaited",
	} {
		k := kinds[i]
		text, err := k.MarshalText()
		if int(k) != i+1 || k.String() != want || string(text) != want || err != nil {
			t.Errorf("outcome %d is %s, %s, %v; want %s: numbers are stored", k, k, text, err, want)
		}
	}
	if OutcomeKind(0).String() != "outcome(0)" || OutcomeKind(14).String() != "outcome(14)" {
		t.Error("an unknown outcome has a name")
	}
}
