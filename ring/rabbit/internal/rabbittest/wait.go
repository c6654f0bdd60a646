package rabbittest

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// Unique returns a name that no other test has.
func Unique(prefix string) string {
	return fmt.Sprintf("test-%s-%d-%d", prefix, os.Getpid(), names.Add(1))
}

var names atomic.Int64

// HangGuard is the shortest timeout of a wait for an event that must come. No test judges the duration of the wait.
const HangGuard = time.Minute

// Eventually polls until holds returns true.
func Eventually(tb testing.TB, within time.Duration, what string, holds func() bool) {
	tb.Helper()
	within = max(within, HangGuard)
	timeout := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-timeout:
			tb.Fatalf("not within %s: %s", within, what)
		}
	}
}

// ReceiveSoon returns the next value from c, and fails if none comes.
func ReceiveSoon[T any](tb testing.TB, c <-chan T) (value T) {
	tb.Helper()
	select {
	case value = <-c:
	case <-time.After(HangGuard):
		tb.Fatal("nothing came")
	}
	return value
}

// Background starts run in a goroutine. stop cancels its context and waits for its end.
func Background(tb testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stopped := false
	return func() {
		cancel()
		if stopped {
			return
		}
		stopped = true
		select {
		case err := <-ended:
			if err != nil {
				tb.Errorf("run: %v", err)
			}
		case <-time.After(HangGuard):
			tb.Error("run does not end")
		}
	}
}
