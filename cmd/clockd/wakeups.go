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

// wakeUps tell the node that has the shard of what is set on another shortly before it is due: through RabbitMQ where there
// is one, else through the database where it can. Elsewhere the sweep of every second finds it.
type wakeUps struct {
	run func(ctx context.Context) error
}

// newWakeUps connects the preloader with the other nodes'; nil where nothing can.
func newWakeUps(broker *rabbit.Session, st store.Store, p *preload.Preloader, k *preload.Keeper, log *slog.Logger, reg prometheus.Registerer) *wakeUps {
	heard := func(body []byte) {
		if err := p.Receive(body); err != nil {
			log.Debug("could not read a wake-up", "err", err)
		}
	}
	if broker != nil {
		w := broker.Wakes(heard, p.Rewind)
		p.SendBy(w)
		return &wakeUps{func(ctx context.Context) error { return runWakes(ctx, w, k) }}
	}
	if n, can := st.(store.Notifier); can {
		b := preload.NewBulletin(n, heard, p.Rewind, log, reg)
		p.SendBy(b)
		return &wakeUps{b.Run}
	}
	return nil
}

// runWakes runs w, and has it hear of the shards that this node has.
func runWakes(ctx context.Context, w *rabbit.Wakes, k *preload.Keeper) error {
	var following sync.WaitGroup
	following.Go(func() {
		for changed := k.Changed(); ; {
			w.Follow(k.Shards())
			select {
			case <-ctx.Done():
				return
			case <-changed:
				changed = k.Changed()
			}
		}
	})
	defer following.Wait()
	return w.Run(ctx)
}
