package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// Limits of replays: how often a rolled back transaction runs again, and the longest wait before it does.
const (
	maxReplays    = 10
	maxReplayWait = 64 * time.Millisecond
)

// Replay runs try. It runs try again after ErrReplay, and after errors that reason names as a definite rollback (a deadlock, a
// serialization failure). For other errors reason returns "". Before each replay it waits for a random time whose limit doubles. It
// returns the last error.
func (m *Metrics) Replay(ctx context.Context, reason func(error) string, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || n == maxReplays {
			return err
		}
		replayReason := reason(err)
		if errors.Is(err, ErrReplay) {
			replayReason = replayRowsChanged
		}
		if replayReason == "" {
			return err
		}
		m.replays.WithLabelValues(replayReason).Inc()
		wait := time.NewTimer(rand.N(min(time.Millisecond<<n, maxReplayWait)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}
