package clock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// The second try of a ring that the settings send nowhere ends its alarm, 2 s after the first one, whatever its
// delivery and its retries are. A kick makes it a first try again.
func TestRingsThatTheSettingsSendNowhereAreTriedTwice(t *testing.T) {
	const now, reason = clock.Instant(1_800_000_000_000), "the settings have changed"
	for _, delivery := range []clock.DeliveryMode{clock.AtLeastOnce, clock.AtMostOnce} {
		r := &clock.Ring{RungAt: now, RingNo: 1, Delivery: delivery, LatestRingAt: clock.NoInstant,
			Retry: clock.RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Second, Limit: 0}}
		r.Before = clock.RingRow{State: clock.Scheduled, NextTryTime: now, UpdateTime: now - 5000}
		first := clock.FateOf(r, clock.Withdrawn(r, reason), now)
		if first.State != clock.Scheduled || first.NextTryTime != now+2000 || first.RetryTimes != 0 || first.InDoubt ||
			first.LastError != reason {
			t.Errorf("%v: the first try leaves %+v", delivery, first.RingRow)
		}
		r.Before, r.RungAt = first.RingRow, now+2000
		second := clock.FateOf(r, clock.Withdrawn(r, reason), now+2000)
		if second.State != clock.Dead || second.LastError != reason {
			t.Errorf("%v: the second try leaves %+v", delivery, second.RingRow)
		}
		r.Before = second.RingRow
		r.Before.State, r.Before.NextTryTime, r.Before.UpdateTime = clock.Scheduled, now+9000, now+9000
		r.RungAt = now + 9001
		kicked := clock.FateOf(r, clock.Withdrawn(r, reason), now+9001)
		if kicked.State != clock.Scheduled || kicked.NextTryTime != now+11_001 {
			t.Errorf("%v: the try after a kick leaves %+v", delivery, kicked.RingRow)
		}
	}
}
