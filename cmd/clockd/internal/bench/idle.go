package bench

import (
	"context"
	"time"
)

// idleTarget is the most of a core that a node takes with nothing to do, in percent.
const idleTarget = 1

// idle measures what a node costs that is asked nothing and has nothing to ring: its own share of a core, and the database's where that
// runs on this machine.
func (r *run) idle(ctx context.Context, b *bed, stage, aside string) error {
	server, err := b.db.Process(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, r.cfg.idle/4); err != nil { // what a start does is over then
		return err
	}
	r.progress.say("idle for %s", r.cfg.idle)
	begun, own, database := time.Now(), b.child.cpu(), familyTime(server)
	if err := sleep(ctx, r.cfg.idle); err != nil {
		return err
	}
	took := time.Since(begun)
	share := func(used time.Duration) float64 { return 100 * used.Seconds() / took.Seconds() }
	r.add(stage, Figure{What: "idle, of a core" + aside, Unit: percent, Value: share(b.child.cpu() - own)}.atMost(idleTarget))
	if server != 0 {
		r.add(stage, Figure{What: "idle, of a core by the database" + aside, Unit: percent, Value: share(familyTime(server) - database)})
	}
	return nil
}
