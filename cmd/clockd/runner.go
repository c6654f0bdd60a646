package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.uber.org/fx"
)

// component is a part that runs from start to stop.
type component struct {
	name string
	run  func(ctx context.Context) error // blocks; returns nil once ctx has ended and its work is drained
	// endBy, if not nil, is told before ctx ends when the process ends at the latest.
	endBy func(time.Time)
}

// runner owns every goroutine of the service. It starts the components in order and stops them in the reverse order.
// Each component has stopped before the next one is told to stop.
type runner struct {
	log      *slog.Logger
	shutdown fx.Shutdowner
}

// errEnded is the error of a component that returned nil before its ctx ended.
var errEnded = errors.New("ended before it was asked to")

// own makes fx start and stop the component.
func (r *runner) own(lc fx.Lifecycle, c component) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	lc.Append(fx.Hook{
		OnStart: func(context.Context) error {
			go func() {
				defer close(done)
				r.watch(ctx, c)
			}()
			return nil
		},
		OnStop: func(stop context.Context) error {
			if end, limited := stop.Deadline(); limited && c.endBy != nil {
				c.endBy(end)
			}
			cancel()
			begun := time.Now()
			select {
			case <-done:
				r.log.Debug("component stopped", "component", c.name, "took", time.Since(begun))
				return nil
			case <-stop.Done():
				return fmt.Errorf("%s did not stop within %s", c.name, time.Since(begun).Round(time.Millisecond))
			}
		},
	})
}

// watch runs the component. If the component ends by itself, watch stops the process.
func (r *runner) watch(ctx context.Context, c component) {
	err := c.run(ctx)
	if ctx.Err() != nil && err == nil {
		return
	}
	if err == nil {
		err = errEnded
	}
	r.log.Error("component failed", "component", c.name, "err", err)
	if err := r.shutdown.Shutdown(fx.ExitCode(exitFailure)); err != nil {
		r.log.Error("could not stop the process", "err", err)
	}
}
