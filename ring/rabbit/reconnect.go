package rabbit

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// keepConnected calls serve again and again until ctx ends. serve opens one connection of the role, uses it until it
// ends, and returns the reason. established reports whether the connection became usable. The pause between two calls
// grows until a connection is established.
func (s *Session) keepConnected(
	ctx context.Context, role string, serve func(context.Context) (established bool, err error),
) {
	backoff, failures := clock.Backoff{First: s.cfg.BackoffMin, Last: s.cfg.BackoffMax}, 0
	var logged []string // the last errors, one for each host: hosts that fail in turn have errors of their own
	for ctx.Err() == nil {
		established, err := serve(ctx)
		if ctx.Err() != nil {
			return
		}
		level := slog.LevelDebug // the same error again
		if text := err.Error(); established || !slices.Contains(logged, text) {
			level = slog.LevelWarn
			logged = lastOf(append(logged, text), len(s.turn.hosts))
		}
		s.log.Log(ctx, level, "broker is not usable", "role", role, "broker", s.turn.addressFor(role), "err", err)
		if established {
			failures = 0
		}
		pause(ctx, backoff.Wait(failures))
		failures++
	}
}

// lastOf returns the last n elements of list, or all of a shorter list.
func lastOf(list []string, n int) []string { return list[max(0, len(list)-n):] }

// pause sleeps for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
