package main

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/clockd/clockd/cmd/clockbench/internal/bench"
)

// loadCommand takes processor time and syncs files, so that the bench can measure clockd on a machine that others use.
type loadCommand struct {
	BusyPerCore int    `arg:"" help:"Busy threads on each core."`
	Folder      string `arg:"" type:"existingdir" help:"Folder of the files that are written and synced."`
}

// Run runs until SIGTERM or SIGINT.
func (l *loadCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return bench.Load(ctx, l.BusyPerCore, l.Folder)
}
