package clock

import (
	"testing"
	"time"
)

func testRing() *Ring {
	return &Ring{
		AlarmID: 7, Key: Key{"shop", "4711"}, Generation: 3, RingNo: 2, RingAt: 1000, LatestRingAt: NoInstant,
		RungAt: 50_000, ClaimID: "new",
		Retry: RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Second, Limit: 5}, MaxRings: 10,
		Before: RingRow{
			State: Scheduled, NextTryTime: 49_000, RingNo: 1, RetryTimes: 4, LastError: "no queue", ClaimID: "old",
			RungAt:     40_000,
			UpdateTime: 41_000, FinishedAt: NoInstant,
		},
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
