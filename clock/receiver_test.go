package clock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// Numbers of places lie above all numbers of destinations, fit the column, and use its range.
func TestPlacesHaveNumbersOfTheirOwn(t *testing.T) {
	seen := map[int]bool{}
	for i := range 5000 {
		n := clock.OwnNumber(fmt.Sprintf("https://host-%d.example", i))
		if n <= clock.MaxDestinations || n > clock.MaxNumber {
			t.Fatalf("number %d", n)
		}
		seen[n] = true
	}
	if len(seen) != clock.MaxNumber-clock.MaxDestinations {
		t.Errorf("%d numbers are used", len(seen))
	}
	if n := clock.OwnNumber("https://shop.example"); n != 250 {
		t.Errorf("a stored number has changed to %d", n)
	}
}

func TestPeopleDoNotSeeWhatAReceiverHides(t *testing.T) {
	for fields, want := range map[string]string{
		``: ``,
		`{"url":"https://a.example/x?token=hush","headers":{"a":"hush","b":"hush"},"method":"PUT"}`: `{"headers":{"a":"...","b":"..."},"method":"PUT","url":"https://a.example/x?..."}`,
		`{"url":"https://a.example/x","key":"why?"}`:                                                `{"key":"why?","url":"https://a.example/x"}`,
		`no object`: `{}`,
	} {
		c := clock.Content{Receiver: fields}
		if got := string(c.ShownReceiver()); got != want {
			t.Errorf("%s is shown as %s", fields, got)
		}
	}
}

func TestReceiversOfSetsAreValidated(t *testing.T) {
	for _, c := range []struct {
		target      clock.TargetKind
		receiver    string
		code, field string
	}{
		{clock.TargetWebhook, `{"method":"PUT"}`, "", ""},
		{clock.NoTarget, `{"method":"PUT"}`, clock.CodeRequired, "target"},
		{clock.TargetWebhook, `"PUT"`, clock.CodeInvalidValue, "receiver"},
		{clock.TargetWebhook, `{`, clock.CodeInvalidValue, "receiver"},
		{clock.TargetWebhook, `{"a":"` + strings.Repeat("x", clock.MaxReceiver) + `"}`, clock.CodeOutOfRange, "receiver"},
	} {
		set := clock.EmptySet()
		set.Key, set.RingAt, set.ContentType = clock.Key{Application: "shop", BusinessID: "x"}, 1, "text/plain"
		set.Target, set.Receiver = c.target, c.receiver
		err := set.Validate(0)
		e, is := errors.AsType[*clock.Error](err)
		if c.code == "" && err != nil || c.code != "" && (!is || e.Code != c.code || e.Field != c.field) {
			t.Errorf("%.40s: %v", c.receiver, err)
		}
	}
}
