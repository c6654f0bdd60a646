package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/cmd/clockd/internal/bench"
)

// benchHTTPCommand serves HTTP as serve does, over nothing: single requests are measured against it.
type benchHTTPCommand struct {
	Listen string `env:"CLOCKD_LISTEN" default:"127.0.0.1:8080" help:"Address to listen on."`
}

// Run serves until SIGTERM or SIGINT.
func (b *benchHTTPCommand) Run() error {
	paceCollector()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cfg := clockhttp.DefaultConfig()
	cfg.Listen = b.Listen
	reg := newRegistry()
	ready := func() clockhttp.Readiness { return clockhttp.Readiness{Ready: true} }
	server, err := clockhttp.New(cfg, clockhttp.Deps{
		Alarms: bench.Nothing{}, Readiness: ready, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Registerer: reg, Gatherer: reg,
	})
	if err != nil {
		return err
	}
	if err := server.Listen(ctx); err != nil {
		return err
	}
	if _, err := fmt.Printf("clockd listens on http://%s and stores nothing\n", server.Addr()); err != nil {
		return err
	}
	return server.Run(ctx)
}
