package bench

import (
	"context"
	"time"
)

// idleTarget is the largest allowed share of a core for an idle node, in percent.
const idleTarget = 1

// idle measures the processor time of an idle node, without requests and rings: its share of a core, and the share of
// the database if that runs on this machine. suffix completes the names of the figures.
func (r *run) idle(ctx context.Context, b *testbed, stage, suffix string) error {
	server, err := b.db.Process(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, r.cfg.idle/4); err != nil { // by then the work of the start is done
		return err
	}
	r.progress.say("idle for %s", r.cfg.idle)
	begun, own, database := time.Now(), b.child.cpu(), familyTime(server)
	if err := sleep(ctx, r.cfg.idle); err != nil {
		return err
	}
	took := time.Since(begun)
	share := func(used time.Duration) float64 { return 100 * used.Seconds() / took.Seconds() }
	r.add(stage,
		Figure{What: "idle, of a core" + suffix, Unit: percent, Value: share(b.child.cpu() - own)}.atMost(idleTarget))
	if server != 0 {
		r.add(stage,
			Figure{What: "idle, of a core by the database" + suffix, Unit: percent,
				Value: share(familyTime(server) - database)})
	}
	return nil
}
