package rabbit

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

// persist leads one connection of a role after the other until ctx ends, with a pause between them that grows while none
// is of use. attend leads one until it ends, and reports whether it was of use and why it ended.
func (s *Session) persist(ctx context.Context, role string, attend func(context.Context) (passed bool, err error)) {
	backoff, last := s.cfg.BackoffMin, ""
	for ctx.Err() == nil {
		passed, err := attend(ctx)
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelDebug // the same trouble again
		if passed || err.Error() != last {
			level = slog.LevelWarn
		}
		last = err.Error()
		s.log.Log(ctx, level, "broker is not usable", "role", role, "broker", s.address, "err", err)
		if passed {
			backoff = s.cfg.BackoffMin
		}
		pause(ctx, backoff/2+rand.N(backoff/2+1))
		backoff = min(2*backoff, s.cfg.BackoffMax)
	}
}

// pause sleeps for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
