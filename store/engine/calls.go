package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Limits of replays: how often a rolled back transaction runs again, and the longest wait before it does.
const (
	maxReplays    = 10
	maxReplayWait = 64 * time.Millisecond
)

// calls gives every call of a store its deadline, its replays, and errors with a kind of package clock.
type calls struct {
	timeout time.Duration // limit of a call whose context has no deadline
	traits  Traits
	errors  Errors
	metrics *metrics
}

// deadline adds the store's timeout to a context that has no deadline.
func (c *calls) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return c.deadlineWith(ctx, 0)
}

// deadlineWith adds the store's timeout and extra to a context that has no deadline.
func (c *calls) deadlineWith(ctx context.Context, extra time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.timeout+extra)
}

// replay runs try, and runs it again after ErrReplay and after a definite rollback. Before each replay it waits for a
// random time whose limit doubles. It returns the last error.
func (c *calls) replay(ctx context.Context, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || n == maxReplays {
			return err
		}
		reason := c.replayReason(err)
		if reason == "" {
			return err
		}
		c.metrics.replays.WithLabelValues(reason).Inc()
		wait := time.NewTimer(rand.N(min(time.Millisecond<<n, maxReplayWait)))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}

// replayReason returns the reason to run a transaction again; "" if it must not run again. A COMMIT without a reply
// never does.
func (c *calls) replayReason(err error) string {
	switch {
	case errors.Is(err, clock.ErrUnconfirmed):
		return ""
	case errors.Is(err, ErrReplay):
		return replayRowsChanged
	}
	return c.errors.Classify(err).replayReason()
}

// mapError wraps err with the failed operation, gives it a kind of package clock, and counts it. It adds the error of
// an ended ctx, because some servers and libraries say only that the statement was cancelled.
func (c *calls) mapError(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, mapped := errors.AsType[*clock.Error](err); mapped {
		return c.metrics.countError(err)
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = errors.Join(ended, err)
	}
	class := c.errors.Classify(err)
	if class == ReadOnly {
		c.errors.DropConnections()
		err = fmt.Errorf("%w: %w", ErrReadOnly, err)
	}
	if class == Misconfigured {
		err = fmt.Errorf("%w: %w", store.ErrSetup, err)
	}
	err = fmt.Errorf("%s: %s: %w", c.traits.Name, doing, err)
	if errors.Is(err, ErrReadOnly) {
		return c.metrics.countError(&clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second, Cause: err,
			Detail: fmt.Sprintf("the database is read-only: the URL leads to a %s, or the primary was changed",
				c.traits.Replica),
		})
	}
	return c.metrics.countError(clock.Unavailable(err))
}

// mapMigrationError maps the error of a migration. A refusal that would only come again is not clock.ErrUnavailable.
func (c *calls) mapMigrationError(ctx context.Context, err error) error {
	if err != nil && (errors.Is(err, errSteps) || c.errors.Classify(err).refusesMigration()) {
		return fmt.Errorf("%s: migrate: %w", c.traits.Name, err)
	}
	return c.mapError(ctx, "migrate", err)
}

// call runs do with a deadline and maps its error.
func (c *calls) call(ctx context.Context, doing string, do func(ctx context.Context) error) error {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	return c.mapError(ctx, doing, do(ctx))
}

// replayed runs try with a deadline, replays it, and maps its error.
func (c *calls) replayed(ctx context.Context, doing string, try func(ctx context.Context) error) error {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	return c.mapError(ctx, doing, c.replay(ctx, func() error { return try(ctx) }))
}

// InTx runs do in a transaction and commits. After an error of do, or a panic, it rolls back.
func InTx[T Tx](ctx context.Context, begin func(ctx context.Context) (T, error), do func(t T) error) error {
	t, err := begin(ctx)
	if err != nil {
		return err
	}
	ended := false
	defer func() {
		if !ended {
			t.Rollback(ctx)
		}
	}()
	if err := do(t); err != nil {
		return err
	}
	ended = true
	return t.Commit(ctx)
}
