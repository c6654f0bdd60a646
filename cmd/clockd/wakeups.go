package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/preload/wake"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/store"
)

// wakeUps send and receive wake-ups: if an alarm is set shortly before it is due, its node tells the owner of its
// shard. They go through RabbitMQ if it is a target, else through the database if it has notifications. Without both,
// the sweep finds the alarm.
type wakeUps struct {
	run func(ctx context.Context) error
}

// newSender returns the sender of this node's wake-ups. It has a courier after newWakeUps.
func newSender(
	cfg *config, reg prometheus.Registerer, tb *clock.Timebase, ownership preload.Ownership,
) (*wake.Sender, error) {
	return wake.NewSender(wake.SenderConfig{Window: cfg.preload.Window},
		wake.SenderDeps{Ownership: ownership, Time: tb, Registerer: reg})
}

// newWakeUps connects this node's preloader with the other nodes. It returns nil if it has neither RabbitMQ nor
// notifications.
func newWakeUps(
	targets *targets, st store.Store, sender *wake.Sender, preloader *preload.Preloader, keeper *lease.Keeper,
	log *slog.Logger, reg prometheus.Registerer,
) *wakeUps {
	receiver := wake.NewReceiver(wake.ReceiverDeps{Ownership: keeper, Loader: preloader, Registerer: reg})
	receive := func(body []byte) {
		if err := receiver.Receive(body); err != nil {
			log.Debug("could not read a wake-up", "err", err)
		}
	}
	if len(targets.sessions) > 0 {
		wakes := targets.sessions[0].Wakes(receive, preloader.Refresh)
		sender.SendBy(wakes)
		return &wakeUps{func(ctx context.Context) error { return runWakes(ctx, wakes, keeper) }}
	}
	if notifier, can := st.(store.Notifier); can {
		bulletin := wake.NewBulletin(wake.BulletinDeps{Notifier: notifier, Heard: receive, Missed: preloader.Refresh,
			Log: log, Registerer: reg})
		sender.SendBy(bulletin)
		return &wakeUps{bulletin.Run}
	}
	return nil
}

// runWakes runs w, and keeps it subscribed to the wake-ups of this node's shards.
func runWakes(ctx context.Context, wakes *rabbit.Wakes, keeper *lease.Keeper) error {
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
