package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/cmd/clockbench/internal/bench"
	"github.com/clockd/clockd/cmd/internal/gcpace"
)

// httpCommand serves clockd's HTTP face and stores nothing. It is the ceiling for single requests.
type httpCommand struct {
	Listen string `env:"CLOCKD_LISTEN" default:"127.0.0.1:8080" help:"Address to listen on."`
}

// Run serves until SIGTERM or SIGINT.
func (h *httpCommand) Run() error {
	gcpace.Start()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cfg := clockhttp.DefaultConfig()
	cfg.Listen = h.Listen
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ready := func() clockhttp.Readiness { return clockhttp.Readiness{Ready: true} }
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	port, err := clockhttp.Listen(ctx, cfg, log, reg)
	if err != nil {
		return err
	}
	defer port.Close()
	server, err := clockhttp.New(cfg,
		clockhttp.Deps{Alarms: bench.Discard{}, Readiness: ready, Log: log, Registerer: reg, Gatherer: reg})
	if err != nil {
		return err
	}
	server.Attach(port)
	if _, err := fmt.Printf("clockd listens on http://%s and stores nothing\n", port.Addr()); err != nil {
		return err
	}
	return server.Run(ctx)
}
