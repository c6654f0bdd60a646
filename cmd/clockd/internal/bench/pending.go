package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What may differ with many alarms pending.
const (
	fullTarget = 0.8 // of the rate at which alarms are set with few pending, at least
	moreTarget = 1.1 // of the memory with few pending, at most
)

// pendingStage measures one bed without and with many alarms far in the future. Its steps come one after the other.
type pendingStage struct {
	run  *run
	bed  *bed
	many string      // what follows the names of figures with the many
	few  Figure      // memory with few pending
	sets []*bulkStep // with few pending
}

// pending measures what alarms far in the future cost, and others beside them: memory, sets, an idle node, lateness, a start.
func (r *run) pending(ctx context.Context, b *bed) error {
	p := &pendingStage{run: r, bed: b, many: ", " + commas(int64(r.cfg.Pending)) + " pending"}
	for _, step := range []func(context.Context) error{
		p.setFew, p.ringAmongFew, p.setAmongFew, p.fill, p.setAmongMany, p.idle, p.ringAmongMany, p.ringFast, p.startAgain,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *pendingStage) setFew(ctx context.Context) error {
	return setLines(ctx, p.bed, "few", p.run.cfg.few, farAhead(p.bed.now()))
}

// ringAmongFew measures the memory of a node that rings some while few are pending.
func (p *pendingStage) ringAmongFew(ctx context.Context) error {
	if err := p.bed.restart(ctx); err != nil {
		return err
	}
	if _, err := p.run.ringSteadily(ctx, p.bed, p.steadily("alone")); err != nil {
		return err
	}
	p.few = p.peakRSS(", " + commas(int64(p.run.cfg.few)) + " pending")
	p.run.add(stagePending, p.few)
	return nil
}

// setAmongFew measures sets in a table that is nearly empty.
func (p *pendingStage) setAmongFew(ctx context.Context) (err error) {
	p.sets, err = p.run.setRounds(ctx, p.bed, "none", p.bed.db.Bare)
	return err
}

// fill sets the many, and waits until the database has written them back.
func (p *pendingStage) fill(ctx context.Context) error {
	n := p.run.cfg.Pending
	p.run.progress.say("pending: %s alarms", commas(int64(n)))
	begun := time.Now()
	if err := p.run.setFollowed(ctx, p.bed, "pending", "ahead", n, farAhead(p.bed.now())); err != nil {
		return err
	}
	p.run.add(stagePending,
		Figure{What: "set, NDJSON, up to " + commas(int64(n)) + " pending", Unit: perSecond, Value: rate(n, time.Since(begun))},
		p.peakRSS(p.many+" set").atMost(rssTarget),
	)
	return p.run.settle(ctx, p.bed)
}

// setAmongMany measures sets in the table that is full, beside bare inserts into the same table.
func (p *pendingStage) setAmongMany(ctx context.Context) error {
	steps, err := p.run.setRounds(ctx, p.bed, "many", p.bed.db.Full)
	if err != nil {
		return err
	}
	p.run.addSets(stagePending, p.many, steps)
	for i, s := range steps[:bulkWays] {
		none := figureOf(s.what+", few pending", perSecond, p.sets[i].rates)
		p.run.add(stagePending, figureOf(s.what+p.many, perSecond, s.rates).besideFigure(none).ratioAtLeast(fullTarget))
	}
	return p.run.settle(ctx, p.bed)
}

// idle measures a node that was started among the many and has nothing to do.
func (p *pendingStage) idle(ctx context.Context) error {
	if err := p.bed.restart(ctx); err != nil {
		return err
	}
	return p.run.idle(ctx, p.bed, stagePending, p.many)
}

// ringAmongMany measures lateness among the many, and the memory of a node that has seen no other load.
func (p *pendingStage) ringAmongMany(ctx context.Context) error {
	if err := p.run.latenessAt(ctx, p.bed, p.steadily("among")); err != nil {
		return err
	}
	f := p.peakRSS(p.many)
	p.run.add(stagePending, f.atMost(rssTarget), f.besideFigure(p.few).ratioAtMost(moreTarget))
	return nil
}

// ringFast measures a herd among the many, and lateness at half its rate.
func (p *pendingStage) ringFast(ctx context.Context) error {
	n := p.run.cfg.Herd
	h, err := p.run.ringHerd(ctx, p.bed, stagePending, "herd", n)
	if err != nil {
		return err
	}
	p.run.add(stagePending, Figure{What: "herd, " + commas(int64(n)) + " due at once" + p.many, Unit: perSecond, Value: h.rate()})
	return p.run.latenessAt(ctx, p.bed, &steady{
		stage: stagePending, what: "lateness at half the herd's rate" + p.many, name: "half", rate: max(int(h.rate()/2), 1), before: true,
	})
}

// Of a database that is settled.
const (
	settledShare = 5 // percent of a core that it uses at most
	settleRounds = 9 // for so many times of Config.settle it is waited for
)

// settle leaves the database what many alarms have left it to do: what rings among millions was not set a second ago.
func (r *run) settle(ctx context.Context, b *bed) error {
	if r.cfg.settle == 0 {
		return nil
	}
	r.progress.say("until the database has settled")
	server, err := b.db.Process(ctx)
	if err := errors.Join(err, b.db.Upkeep(ctx)); err != nil {
		return err
	}
	for range settleRounds {
		used := familyTime(server)
		if err := sleep(ctx, r.cfg.settle); err != nil {
			return err
		}
		if server == 0 || 100*(familyTime(server)-used) < settledShare*r.cfg.settle {
			return nil
		}
	}
	return nil
}

// startAgain measures how soon a node rings what came due while there was none.
func (p *pendingStage) startAgain(ctx context.Context) error {
	for _, end := range endings(&p.run.cfg) {
		if err := p.run.start(ctx, p.bed, stagePending, end, p.many); err != nil {
			return err
		}
	}
	return nil
}

// steadily is the rate at which alarms ring beside the pending ones.
func (p *pendingStage) steadily(name string) *steady {
	perSecond := p.run.cfg.Rate
	return &steady{stage: stagePending, what: fmt.Sprintf("lateness at %d/s%s", perSecond, p.many), name: name, rate: perSecond}
}

// peakRSS returns the most memory that the node had since it was started.
func (p *pendingStage) peakRSS(aside string) Figure {
	return Figure{What: "peak RSS" + aside, Unit: mebibytes, Value: mib(p.bed.child.peakRSS())}
}
