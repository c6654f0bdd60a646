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

// Replay runs try, and again after ErrReplay and after what reason names as a definite rollback (a deadlock, a serialization
// failure; "" for all else), with a random wait that doubles. It returns the last error.
func (m *Metrics) Replay(ctx context.Context, reason func(error) string, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || n == maxReplays {
			return err
		}
		why := reason(err)
		if errors.Is(err, ErrReplay) {
			why = replayRowsChanged
		}
		if why == "" {
			return err
		}
		m.replays.WithLabelValues(why).Inc()
		wait := time.NewTimer(rand.N(min(time.Millisecond<<n, maxReplayWait)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}
