package clock

import (
	"testing"
	"time"
)

func FuzzParseRingID(f *testing.F) {
	for _, s := range []string{"1.1.1", "17.3.2", "9223372036854775807.9223372036854775807.2147483647", "", "1.1", "01.1.1", "1.1.0", "+1.1.1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRingID(s)
		if err != nil {
			return
		}
		if r.String() != s || (&Answer{Ring: r, Kind: Ack}).Validate() != nil {
			t.Fatalf("%q is read as %s, %v", s, r, (&Answer{Ring: r, Kind: Ack}).Validate())
		}
	})
}

func TestValidateAnswerNamesTheOffendingField(t *testing.T) {
	good := RingID{7, 3, 2}
	delay := func(d time.Duration) Delay { return Delay{Given: true, Span: d} }
	for _, c := range []struct {
		answer      Answer
		field, code string
	}{
		{Answer{Ring: good, Kind: Ack}, "", ""},
		{Answer{Ring: good, Kind: Ack, Key: Key{Application: "shop"}, Delay: delay(-1)}, "", ""},
		{Answer{Ring: good, Kind: Ack, Key: Key{Application: "-"}}, "application", CodeInvalidApplication},
		{Answer{Kind: Ack}, "message_id", CodeInvalidValue},
		{Answer{Ring: RingID{7, 3, 0}, Kind: Ack}, "message_id", CodeInvalidValue},
		{Answer{Ring: RingID{7, 3, maxRingNo + 1}, Kind: Ack}, "message_id", CodeInvalidValue},
		{Answer{Ring: good}, "answer", CodeInvalidValue},
		{Answer{Ring: good, Kind: Touch + 1}, "answer", CodeInvalidValue},
		{Answer{Ring: good, Kind: Release}, "", ""},
		{Answer{Ring: good, Kind: Release, Delay: delay(0)}, "", ""},
		{Answer{Ring: good, Kind: Release, Delay: delay(MaxReleaseDelay)}, "", ""},
		{Answer{Ring: good, Kind: Release, Delay: delay(MaxReleaseDelay + 1)}, "delay", CodeOutOfRange},
		{Answer{Ring: good, Kind: Release, Delay: delay(-1)}, "delay", CodeOutOfRange},
		{Answer{Ring: good, Kind: Touch}, "", ""},
		{Answer{Ring: good, Kind: Touch, Delay: delay(time.Second)}, "", ""},
		{Answer{Ring: good, Kind: Touch, Delay: delay(24 * time.Hour)}, "", ""},
		{Answer{Ring: good, Kind: Touch, Delay: delay(time.Second - 1)}, "delay", CodeOutOfRange},
		{Answer{Ring: good, Kind: Touch, Delay: delay(24*time.Hour + 1)}, "delay", CodeOutOfRange},
		{Answer{Ring: good, Kind: Bury, Delay: delay(-1)}, "", ""},
	} {
		err := c.answer.Validate()
		if field, code := invalidField(err); field != c.field || code != c.code || (err == nil) != (c.code == "") {
			t.Errorf("%+v: %q, %q (%v), want %q, %q", c.answer, field, code, err, c.field, c.code)
		}
	}
}

func TestAnswersAndDeliveryModesHaveFixedNumbers(t *testing.T) {
	for i, want := range []string{"", "ack", "release", "bury", "touch", "answer(5)"} {
		if got := AnswerKind(i).String(); got != want {
			t.Errorf("answer %d is %q, want %q: numbers are stored", i, got, want)
		}
	}
	for i, want := range []string{"at_least_once", "at_most_once"} {
		if d, err := ParseDeliveryMode(want); d != DeliveryMode(i) || d.String() != want || err != nil {
			t.Errorf("delivery %s is %d: numbers are stored", want, d)
		}
	}
	if _, err := ParseDeliveryMode("once"); err == nil {
		t.Error("the delivery mode once is accepted")
	}
}
