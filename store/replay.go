package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// How often a transaction that the database rolled back is begun again, and the longest wait before it.
const (
	maxReplays    = 10
	maxReplayWait = 64 * time.Millisecond
)

// Replay runs try, and again after ErrReplay and after what rolledBack says was a definite rollback (a deadlock, a
// serialization failure), with a random wait that doubles. It returns the last error.
func Replay(ctx context.Context, rolledBack func(error) bool, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || n == maxReplays || !errors.Is(err, ErrReplay) && !rolledBack(err) {
			return err
		}
		wait := time.NewTimer(rand.N(min(time.Millisecond<<n, maxReplayWait)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}
