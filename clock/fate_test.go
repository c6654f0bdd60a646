package clock

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const fateNow Instant = 51_000

// wantFate demands the row after an outcome of the ring at fateNow.
func wantFate(t *testing.T, r *Ring, o Outcome, want RingRow) {
	t.Helper()
	if got := FateOf(r, o, fateNow); got.RingRow != want || got.Outcome != o {
		t.Errorf("%s leaves\n%+v, want\n%+v", o.Kind, got, want)
	}
}

// changedRow returns a copy of the row after change.
func changedRow(r RingRow, change func(r *RingRow)) RingRow {
	change(&r)
	return r
}

func TestFailedRingIsTriedAgainUpToTheLimit(t *testing.T) {
	for _, kind := range []OutcomeKind{Returned, Nacked, Refused} {
		r := testRing()
		o := Outcome{Kind: kind, Reason: "because"}
		f := FateOf(r, o, fateNow)
		want := changedRow(r.Before, func(row *RingRow) {
			row.RetryTimes, row.LastError, row.UpdateTime, row.NextTryTime = 5, "because", fateNow, f.NextTryTime
		})
		wantFate(t, r, o, want)
		if wait := f.NextTryTime.Sub(fateNow); wait < 500*time.Millisecond || wait > time.Second {
			t.Errorf("%s waits %s", kind, wait)
		}
		r.Before = f.RingRow
		want.State, want.NextTryTime, want.RetryTimes, want.FinishedAt = Dead, NoInstant, 6, fateNow
		wantFate(t, r, o, want)
	}
}

func TestFailureBeyondTheLimitIsDead(t *testing.T) {
	for _, c := range []struct {
		limit, failed int
		want          State
	}{{0, 0, Dead}, {1, 0, Scheduled}, {1, 1, Dead}, {NoLimit, 1_000_000, Scheduled}} {
		r := testRing()
		r.Retry.Limit, r.Before.RetryTimes = c.limit, c.failed
		if got := FateOf(r, Outcome{Kind: Returned}, fateNow); got.State != c.want {
			t.Errorf("limit %d after %d failed tries: %s, want %s", c.limit, c.failed, got.State, c.want)
		}
	}
}

// A late outcome has the row of the same outcome in time, written now.
func TestLateFateIsWrittenNow(t *testing.T) {
	for _, kind := range OutcomeKinds() {
		r := testRing()
		want := FateOf(r, Outcome{Kind: kind}, fateNow)
		want.UpdateTime = fateNow
		if got := LateFateOf(r, Outcome{Kind: kind}, fateNow); got != want {
			t.Errorf("%s: %+v, want %+v", kind, got, want)
		}
	}
	r := testRing()
	r.AckTimeout = time.Minute
	want := FateOf(r, Outcome{Kind: Confirmed}, fateNow)
	want.UpdateTime, want.NextTryTime = fateNow, fateNow.Add(time.Minute)
	if got := LateFateOf(r, Outcome{Kind: Confirmed}, fateNow); got != want {
		t.Errorf("with an acknowledgement: %+v, want %+v", got, want)
	}
}

func TestOnlyAConfirmEndsTheDoubt(t *testing.T) {
	for _, kind := range append(OutcomeKinds(), TooLate, Unreadable) {
		for name, before := range map[string]func(row *RingRow){
			"doubt": func(row *RingRow) { row.InDoubt = true },
			"claim": func(row *RingRow) { row.State, row.RungAt = Ringing, NoInstant }, // a node died with its two-phase claim
		} {
			r := testRing()
			before(&r.Before)
			if f := FateOf(r, Outcome{Kind: kind}, fateNow); f.InDoubt != (kind != Confirmed) {
				t.Errorf("in doubt after %s, with a %s before: %t", kind, name, f.InDoubt)
			}
		}
	}
}

func TestNextTryIsNotAfterLatestRingAt(t *testing.T) {
	for _, kind := range []OutcomeKind{Returned, Nacked, Refused, Doubtful, Unsent, Untaken} {
		r := testRing()
		r.LatestRingAt = fateNow + 100
		if f := FateOf(r, Outcome{Kind: kind}, fateNow); f.NextTryTime > r.LatestRingAt ||
			f.RetryTimes > 4 && f.NextTryTime != r.LatestRingAt {
			t.Errorf("%s: next try at %d, latest %d", kind, f.NextTryTime, r.LatestRingAt)
		}
		r.LatestRingAt = fateNow - 7
		if f := FateOf(r, Outcome{Kind: kind}, fateNow); f.NextTryTime != fateNow || f.State != Scheduled {
			t.Errorf("%s after the latest: %+v", kind, f)
		}
	}
}

func TestExpiredReasonIsCutByCharacters(t *testing.T) {
	long := strings.Repeat("ø", MaxReason)
	r := testRing()
	r.Before.LastError, r.Before.InDoubt = long, true
	want := string([]rune(ReasonInDoubt + "; last error: " + long)[:MaxReason])
	if got := FateOf(r, Outcome{Kind: TooLate}, fateNow).LastError; got != want {
		t.Errorf("the reason is %q, want %q", got, want)
	}
}

// A held claim writes the row before its ring is delivered.
func TestConfirmedRowIsTheFateOfAConfirm(t *testing.T) {
	for _, ackTimeout := range []time.Duration{0, time.Minute} {
		r := testRing()
		r.AckTimeout = ackTimeout
		if got, want := ConfirmedRow(r), FateOf(r, Outcome{Kind: Confirmed}, fateNow).RingRow; got != want {
			t.Errorf("the confirmed row is %+v, want %+v", got, want)
		}
	}
}

func TestRetryWaitsDifferByAlarmAndTry(t *testing.T) {
	seen := map[Instant]bool{}
	for i := range 100 {
		r := testRing()
		r.AlarmID, r.Before.RetryTimes, r.Retry.Limit = int64(1000+i/10), i%10, NoLimit
		next := FateOf(r, Outcome{Kind: Nacked}, fateNow).NextTryTime
		if again := FateOf(r, Outcome{Kind: Nacked}, fateNow).NextTryTime; again != next {
			t.Fatalf("one ring is tried again at %d and at %d", next, again)
		}
		seen[next] = true
	}
	if len(seen) < 80 {
		t.Errorf("100 rings that failed together are tried again at only %d of 500 instants", len(seen))
	}
}

func TestRetryWaitsSpreadOverHalfOfTheWait(t *testing.T) {
	var counts [5]int
	for id := range 10_000 {
		r := testRing()
		r.AlarmID = int64(id)
		wait := FateOf(r, Outcome{Kind: Nacked}, fateNow).NextTryTime.Sub(fateNow)
		counts[min(4, (wait-500*time.Millisecond)/(100*time.Millisecond))]++
	}
	for i, n := range counts {
		if n < 1800 || n > 2200 {
			t.Errorf("%d of 10000 waits are in part %d of 5: %v", n, i, counts)
		}
	}
}

func TestFateBoundsTheReason(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"no receiver", "no receiver"},
		{strings.Repeat("x", MaxReason+1), strings.Repeat("x", MaxReason)},
		{strings.Repeat("x", MaxReason-1) + "ø", strings.Repeat("x", MaxReason-1)},
		{"a\xffb\x00c", "abc"},
		{"", "no queue"}, // the last_error before
	} {
		got := FateOf(testRing(), Outcome{Kind: Nacked, Reason: c.in}, fateNow)
		if got.LastError != c.want || !utf8.ValidString(got.LastError) || c.in != "" && got.Outcome.Reason != c.want {
			t.Errorf("%.20q is kept as %.20q", c.in, got.LastError)
		}
	}
}

// The longer of the policy's wait and RetryAfter decides. RetryAfter is bounded, and the next try never lies beyond
// LatestRingAt.
func TestRetryAfterMakesTheWaitLonger(t *testing.T) {
	r := testRing()
	policy := FateOf(r, Outcome{Kind: Nacked}, fateNow).NextTryTime.Sub(fateNow)
	for _, c := range []struct {
		after, latest, want time.Duration
	}{
		{0, 0, policy},
		{time.Millisecond, 0, policy},
		{policy + time.Millisecond, 0, policy + time.Millisecond},
		{10 * time.Minute, 0, 10 * time.Minute},
		{10 * time.Minute, time.Minute, time.Minute},
		{1 << 62, 0, 24 * time.Hour},
	} {
		r.LatestRingAt = NoInstant
		if c.latest > 0 {
			r.LatestRingAt = fateNow.Add(c.latest)
		}
		for _, o := range []Outcome{{Kind: Nacked, RetryAfter: c.after}, {Kind: Returned, RetryAfter: c.after}, {Kind: Doubtful, Counted: true, RetryAfter: c.after}} {
			if got := FateOf(r, o, fateNow).NextTryTime.Sub(fateNow); got != c.want {
				t.Errorf("%s with RetryAfter %s waits %s, want %s", o.Kind, c.after, got, c.want)
			}
		}
	}
	r.Retry.Limit = 4
	if got := FateOf(r, Outcome{Kind: Nacked, RetryAfter: time.Minute}, fateNow); got.State != Dead {
		t.Errorf("RetryAfter beyond the retry limit: %+v", got)
	}
}
