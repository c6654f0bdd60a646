package clock

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func testRing() *Ring {
	return &Ring{
		AlarmID: 7, Key: Key{"shop", "4711"}, Generation: 3, RingNo: 2, RetryTimes: 4, RingAt: 1000, LatestRingAt: NoInstant, RungAt: 50_000,
		Retry: RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Second, Limit: 5}, MaxRings: 10,
	}
}

func TestMessageIDHasAlarmGenerationAndRingNumber(t *testing.T) {
	if got := testRing().MessageID(); got != "7.3.2" {
		t.Errorf("got %s", got)
	}
	big := &Ring{AlarmID: 1<<63 - 1, Generation: 1<<63 - 1, RingNo: 1000}
	if got := big.MessageID(); got != "9223372036854775807.9223372036854775807.1000" {
		t.Errorf("got %s", got)
	}
}

func TestSettledConfirmIsRungOrWaitsForItsAcknowledgement(t *testing.T) {
	r := testRing()
	r.InDoubt = true
	want := Fate{Outcome: Outcome{Kind: Confirmed}, State: Rung, NextTryTime: NoInstant, RetryTimes: 4, FinishedAt: 50_000}
	if got := Settle(r, Outcome{Kind: Confirmed}, 51_000); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.LatestRingAt = 50_100 // it does not shorten ack_timeout
	r.AckTimeout = time.Minute
	want.State, want.NextTryTime, want.FinishedAt = Ringing, 110_000, NoInstant
	if got := Settle(r, Outcome{Kind: Confirmed}, 51_000); got != want {
		t.Errorf("with ack_timeout: got %+v, want %+v", got, want)
	}
}

func TestSettledFailureIsTriedAgainUpToTheLimit(t *testing.T) {
	const now, latest = Instant(51_000), Instant(51_100)
	for _, c := range []struct {
		kind           OutcomeKind
		counted, doubt bool
	}{{Returned, true, false}, {Nacked, true, false}, {Refused, true, false}, {Doubtful, false, true}, {Unsent, false, false}, {Untaken, false, false}} {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/in doubt before %v", c.kind, before), func(t *testing.T) {
				r := testRing()
				r.InDoubt = before
				checkFailure(t, r, c.kind, c.counted, c.doubt || before, now)
				r.LatestRingAt = latest
				if f := Settle(r, Outcome{Kind: c.kind}, now); c.counted && f.NextTryTime != latest || f.NextTryTime > latest {
					t.Errorf("next try at %d, latest %d", f.NextTryTime, latest)
				}
				if f := Settle(r, Outcome{Kind: c.kind}, latest+7); f.NextTryTime != latest+7 || f.State != Scheduled {
					t.Errorf("after the latest: %+v", f)
				}
			})
		}
	}
}

// checkFailure settles a ring that has one retry left. If the failure is counted, it settles the ring a second time.
func checkFailure(t *testing.T, r *Ring, kind OutcomeKind, counted, doubt bool, now Instant) {
	t.Helper()
	f := Settle(r, Outcome{Kind: kind, Reason: "because"}, now)
	if f.State != Scheduled || f.InDoubt != doubt || f.LastError != "because" || f.FinishedAt != NoInstant || f.Outcome.Kind != kind {
		t.Fatalf("got %+v", f)
	}
	if !counted {
		if f.RetryTimes != r.RetryTimes || f.NextTryTime != now {
			t.Errorf("counted, or not due at once: %+v", f)
		}
		return
	}
	if wait := f.NextTryTime.Sub(now); f.RetryTimes != 5 || wait < 500*time.Millisecond || wait > time.Second {
		t.Errorf("got %+v", f)
	}
	last := *r
	last.RetryTimes = f.RetryTimes
	want := Fate{
		Outcome: Outcome{Kind: kind, Reason: "over"}, State: Dead, NextTryTime: NoInstant, RetryTimes: 6, LastError: "over", InDoubt: r.InDoubt,
		FinishedAt: now,
	}
	if got := Settle(&last, Outcome{Kind: kind, Reason: "over"}, now); got != want {
		t.Errorf("past the limit: got %+v, want %+v", got, want)
	}
}

func TestSettledFailureBeyondTheLimitIsDead(t *testing.T) {
	for _, c := range []struct {
		limit, failed int
		want          State
	}{{0, 0, Dead}, {1, 0, Scheduled}, {1, 1, Dead}, {NoLimit, 1_000_000, Scheduled}} {
		r := testRing()
		r.Retry.Limit, r.RetryTimes = c.limit, c.failed
		if got := Settle(r, Outcome{Kind: Returned}, 51_000); got.State != c.want {
			t.Errorf("limit %d after %d failed tries: %s, want %s", c.limit, c.failed, got.State, c.want)
		}
	}
}

func TestSettleWaitsDiffer(t *testing.T) {
	r := testRing()
	seen := map[Instant]bool{}
	for range 100 {
		seen[Settle(r, Outcome{Kind: Nacked}, 51_000).NextTryTime] = true
	}
	if len(seen) < 20 {
		t.Errorf("100 rings that failed together are tried again at only %d instants", len(seen))
	}
}

func TestSettleBoundsTheReason(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"no queue", "no queue"},
		{strings.Repeat("x", MaxReason+1), strings.Repeat("x", MaxReason)},
		{strings.Repeat("x", MaxReason-1) + "ø", strings.Repeat("x", MaxReason-1)},
		{"a\xffb\x00c", "abc"},
	} {
		got := Settle(testRing(), Outcome{Kind: Nacked, Reason: c.in}, 51_000).LastError
		if got != c.want || !utf8.ValidString(got) {
			t.Errorf("%.20q is kept as %.20q", c.in, got)
		}
	}
}

func TestOutcomesHaveFixedNumbersAndNames(t *testing.T) {
	kinds := append(OutcomeKinds(), Released, Buried, Unacknowledged)
	for i, want := range []string{
		"confirmed", "returned", "nacked", "in_doubt", "refused", "unsent", "untaken", "released", "buried", "unacknowledged",
	} {
		k := kinds[i]
		text, err := k.MarshalText()
		if int(k) != i+1 || k.String() != want || string(text) != want || err != nil {
			t.Errorf("outcome %d is %s, %s, %v; want %s: numbers are stored", k, k, text, err, want)
		}
	}
	if OutcomeKind(0).String() != "outcome(0)" || OutcomeKind(11).String() != "outcome(11)" {
		t.Error("an unknown outcome has a name")
	}
}
