package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/store"
)

// wakeUps send and receive wake-ups: if an alarm is set shortly before it is due, its node tells the owner of its shard. They go
// through RabbitMQ if rings do, else through the database if it has notifications. Without both, the sweep finds the alarm.
type wakeUps struct {
	run func(ctx context.Context) error
}

// newWakeUps connects this node's preloader with the other nodes. It returns nil if it has neither a broker nor notifications.
func newWakeUps(broker *rabbit.Session, st store.Store, preloader *preload.Preloader, keeper *preload.Keeper, log *slog.Logger, reg prometheus.Registerer) *wakeUps {
	receive := func(body []byte) {
		if err := preloader.Receive(body); err != nil {
			log.Debug("could not read a wake-up", "err", err)
		}
	}
	if broker != nil {
		wakes := broker.Wakes(receive, preloader.Refresh)
		preloader.SendBy(wakes)
		return &wakeUps{func(ctx context.Context) error { return runWakes(ctx, wakes, keeper) }}
	}
	if notifier, can := st.(store.Notifier); can {
		bulletin := preload.NewBulletin(notifier, receive, preloader.Refresh, log, reg)
		preloader.SendBy(bulletin)
		return &wakeUps{bulletin.Run}
	}
	return nil
}

// runWakes runs w, and keeps it subscribed to the wake-ups of this node's shards.
func runWakes(ctx context.Context, wakes *rabbit.Wakes, keeper *preload.Keeper) error {
	var following sync.WaitGroup
	following.Go(func() {
		for changed := keeper.Changed(); ; {
			wakes.Follow(keeper.Shards())
			select {
			case <-ctx.Done():
				return
			case <-changed:
				changed = keeper.Changed()
			}
		}
	})
	defer following.Wait()
	return wakes.Run(ctx)
}
