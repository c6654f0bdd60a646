package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// overloadTarget is the smallest allowed ratio of the rings per second of processor time, beside a herd on the free
// machine.
const overloadTarget = 0.8

// overloadRounds holds the results of the herds on the free machine, or of the herds under load.
type overloadRounds struct {
	rates, efficiencies, last samples // efficiencies: rings per second of the servers' processor time; last: lateness of the last ring
	copies                    samples // rings that came more than once
}

func (o *overloadRounds) add(h *herd) {
	o.rates = append(o.rates, h.rate())
	o.efficiencies = append(o.efficiencies, rate(h.rings.Rung, h.servers))
	o.last = append(o.last, h.took.Seconds())
	o.copies = append(o.copies, float64(h.rings.copies()))
}

// overload measures what happens when there is more work than the machine, the broker or the nodes can do. Each part
// has a testbed of its own.
func (r *run) overload(ctx context.Context) error {
	parts := []func(context.Context) error{inTestbedOf(r.makeOverloadTestbed, r.herdsUnderLoad), r.inTestbed(r.flood)}
	if r.cfg.AMQPURL != "" {
		parts = append(parts, inTestbedOf(r.makeSlowedTestbed, r.slowBroker),
			inTestbedOf(r.makeOverloadTestbed, r.killOne))
	}
	for _, part := range parts {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// herdsUnderLoad measures herds by turns: on the free machine, and beside processes that take its cores and sync files.
func (r *run) herdsUnderLoad(ctx context.Context, b *testbed) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	var free, loaded overloadRounds
	for round := range r.cfg.Rounds {
		r.progress.say("overload, round %d: the free machine", round+1)
		h, err := r.ringHerd(ctx, b, stageOverload, fmt.Sprintf("free%d-", round), r.cfg.Herd, nil)
		if err != nil {
			return err
		}
		free.add(&h)
		if h, err = r.ringOverloaded(ctx, b, round); err != nil {
			return err
		}
		loaded.add(&h)
	}
	r.addOverload(&free, &loaded)
	return nil
}

// ringOverloaded rings a herd under load. The load begins before the alarms are set.
func (r *run) ringOverloaded(ctx context.Context, b *testbed, round int) (h herd, err error) {
	r.progress.say("overload, round %d: %d busy threads a core", round+1, r.cfg.busyPerCore)
	if b.load, err = startLoad(ctx, &r.cfg); err != nil {
		return h, err
	}
	defer func() {
		err = errors.Join(err, b.load.stop())
		b.load = nil
	}()
	return r.ringHerd(ctx, b, stageOverload, fmt.Sprintf("loaded%d-", round), r.cfg.Herd, nil)
}

// addOverload adds the figures under load, beside the same figures of the free machine.
func (r *run) addOverload(free, loaded *overloadRounds) {
	const beside = "free machine"
	what := fmt.Sprintf("overload, %s due at once", commas(int64(r.cfg.Herd)))
	copies := figureOf(what+", copies", "", loaded.copies).besideAll(beside, free.copies)
	r.add(stageOverload,
		copies.judged("0", slices.Max(loaded.copies) == 0),
		figureOf(what, perSecond, loaded.rates).besideAll(beside, free.rates),
		figureOf(what+", last ring after", seconds, loaded.last).besideAll(beside, free.last),
	)
	if free.efficiencies.median() > 0 {
		r.add(stageOverload,
			figureOf(what+", a second of processor time", perSecond, loaded.efficiencies).besideAll(beside,
				free.efficiencies).
				ratioAtLeast(overloadTarget))
	}
}

// serversTime returns the processor time that everything on this machine has used, without the bench and its load:
// clockd, the database and the broker, if they run here. It returns 0 if the system does not report it.
func (b *testbed) serversTime() time.Duration {
	used := machineTime()
	if used == 0 {
		return 0
	}
	used -= ownTime()
	if b.load != nil {
		used -= b.load.child.cpu()
	}
	return used
}
