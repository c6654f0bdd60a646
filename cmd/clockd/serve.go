package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/fx"

	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/cmd/internal/gcpace"
)

type serveCommand struct {
	serveFlags
}

// configures marks a command that reports all faults of the configuration.
func (*serveCommand) configures() {}

// stopTimeout is the most time for a graceful stop: running requests, rings in flight and the last commit.
const stopTimeout = 10 * time.Second

// errComponent ends the process after a component has failed. The log has the component's error.
var errComponent = errors.New("stopped because a component failed; see the log")

// Run serves until SIGTERM or SIGINT, then drains and returns.
func (s *serveCommand) Run(parsed *kong.Context, values *sources) (err error) {
	cfg, err := values.configure(parsed, &s.serveFlags)
	if err != nil {
		return err
	}
	slog.SetDefault(cfg.logger().With("node", cfg.Node)) // libraries write to package log, which writes to this log from now on
	values.warnReadable(slog.Default())
	gcpace.Start()
	profiled, err := startProfile(s.CPUProfile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, profiled()) }()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return serve(ctx, cfg, os.Stdout)
}

// serve runs the service until ctx ends or a component fails. more changes the wiring.
func serve(ctx context.Context, cfg *config, out *os.File, more ...fx.Option) error {
	log := cfg.logger().With("node", cfg.Node)
	reg := newRegistry()
	port, err := clockhttp.Listen(ctx, cfg.http, log, reg)
	if err != nil {
		return err
	}
	defer port.Close()
	followCertificates(ctx, port.Certificates())
	addresses := []any{"address", port.Addr().String()}
	if a := port.MetricsAddr(); a != nil {
		addresses = append(addresses, "metrics", a.String())
	}
	log.Info("starting", append(addresses, "version", version)...)
	st, err := openStore(ctx, cfg, log, reg, port.WaitsFor)
	if err != nil {
		return unlessStopped(ctx, log, err)
	}
	var s *service
	app := fx.New(options(cfg, log, reg, st, port), fx.Options(more...), fx.Populate(&s))
	if err := app.Err(); err != nil {
		return errors.Join(err, st.Close())
	}
	if err := app.Start(ctx); err != nil {
		return unlessStopped(ctx, log, errors.Join(fmt.Errorf("start: %w", err), st.Close()))
	}
	if err := s.announce(out); err != nil {
		log.Warn("could not print the service's address", "err", err)
	}
	if warning := authenticationWarning(s.access, s.self.httpAddress()); warning != "" {
		log.Warn("authentication needs attention", "address", s.self.httpAddress(), "reason", warning)
	}
	code := 0
	select {
	case <-ctx.Done():
		log.Info("stopping")
	case signal := <-app.Wait():
		code = signal.ExitCode
	}
	return s.stop(app, code)
}

// unlessStopped returns the error of a start, or nil if a signal has ended the start.
func unlessStopped(ctx context.Context, log *slog.Logger, err error) error {
	if ctx.Err() == nil {
		return err
	}
	log.Info("stopped during the start", "err", err)
	return nil
}

// stop stops all components in order. It returns errComponent if code, the exit code of a failed component, is not 0.
func (s *service) stop(app *fx.App, code int) error {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	begun := time.Now()
	if err := app.Stop(ctx); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	s.log.Info("stopped", "took", time.Since(begun).Round(time.Millisecond))
	if code != 0 {
		return errComponent
	}
	return nil
}
