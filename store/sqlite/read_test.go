package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// TestGetReadsRowAndAttemptsAsOfOneMoment reads an alarm again and again while its rings fail. Each failure adds one to
// retry_times and one attempt, in one transaction.
func TestGetReadsRowAndAttemptsAsOfOneMoment(t *testing.T) {
	s := migrated(t, filepath.Join(t.TempDir(), "clockd.db"))
	now := clock.Instant(time.Now().UnixMilli())
	key := clock.Key{Application: "shop", BusinessID: "order-1"}
	retry := clock.RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Second, Limit: clock.NoLimit}
	set := clock.Set{Key: key,
		Content: clock.Content{RingAt: now, LatestRingAt: clock.NoInstant, Retry: retry, MaxRings: 1}}
	decisions, err := s.Write(t.Context(), clock.WriteRequest{Now: now, Ops: []clock.Op{{Set: &set}}})
	ok(t, err, "set")
	var readers sync.WaitGroup
	var stop atomic.Bool
	for range 4 {
		readers.Go(func() {
			for !stop.Load() {
				a, err := s.Get(t.Context(), key)
				if err != nil || a.RetryTimes != len(a.Attempts) {
					t.Errorf("%d failed rings, %d attempts, %v", a.RetryTimes, len(a.Attempts), err)
					return
				}
			}
		})
	}
	for round := range clock.MaxAttempts {
		now = now.Add(2 * time.Second)
		c, err := s.Claim(t.Context(), store.ClaimRequest{
			IDs: []int64{decisions[0].Alarm.ID}, Now: now, ClaimID: fmt.Sprintf("%026d", round), MaxBytes: 1 << 20,
			Timeout: time.Minute,
		})
		ok(t, err, "claim")
		fate := clock.FateOf(&c.Rings[0], clock.Outcome{Kind: clock.Nacked, Reason: "full"}, now)
		ok(t, c.Settler.Settle(t.Context(), now, []clock.Fate{fate}), "settle")
	}
	stop.Store(true)
	readers.Wait()
}

func TestCommitAfterTheEndOfItsContextIsDefinite(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := commitError(ctx, sql.ErrTxDone); errors.Is(err, clock.ErrUnconfirmed) ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func ok(t *testing.T, err error, doing string) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}
