package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// The allowed differences with many alarms pending.
const (
	fullTarget = 0.8 // smallest allowed ratio to the rate of sets with few pending alarms
	moreTarget = 1.1 // largest allowed ratio to the memory with few pending alarms
)

// pendingStage measures one testbed without and with many alarms far in the future. Its steps run one after the other.
type pendingStage struct {
	run     *run
	testbed *testbed
	many    string      // suffix of the names of figures with many pending alarms
	few     Figure      // memory with few pending alarms
	sets    []*bulkStep // results with few pending alarms
}

// pending measures the cost of many alarms far in the future: memory, sets, an idle node, lateness, a herd and a start
// beside them.
func (r *run) pending(ctx context.Context, b *testbed) error {
	p := &pendingStage{run: r, testbed: b, many: ", " + commas(int64(r.cfg.Pending)) + " pending"}
	if r.cfg.Definitions {
		p.many = ", " + commas(int64(r.cfg.Pending)) + " definitions pending"
	}
	for _, step := range []func(context.Context) error{
		p.setFew, p.ringAmongFew, p.setAmongFew, p.fill, p.setAmongMany, p.idle, p.ringAmongMany, p.ringFast,
		p.startAgain,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *pendingStage) setFew(ctx context.Context) error {
	return setLines(ctx, p.testbed, "few", p.run.cfg.few, farAhead(p.testbed.now()))
}

// ringAmongFew measures the memory of a node that rings alarms while few are pending.
func (p *pendingStage) ringAmongFew(ctx context.Context) error {
	if err := p.testbed.restart(ctx); err != nil {
		return err
	}
	if _, err := p.run.ringSteadily(ctx, p.testbed, p.steadily("alone")); err != nil {
		return err
	}
	p.few = p.peakRSS(", " + commas(int64(p.run.cfg.few)) + " pending")
	p.run.add(stagePending, p.few)
	return nil
}

// setAmongFew measures sets in a nearly empty table.
func (p *pendingStage) setAmongFew(ctx context.Context) (err error) {
	p.sets, err = p.run.setRounds(ctx, p.testbed, "none", p.testbed.db.Bare)
	return err
}

// fill sets the many pending alarms, and waits until the database has settled.
func (p *pendingStage) fill(ctx context.Context) error {
	n := p.run.cfg.Pending
	p.run.progress.say("pending: %s alarms", commas(int64(n)))
	name := series("ahead")
	if p.run.cfg.Definitions {
		name = definitions
	}
	begun := time.Now()
	if err := p.run.setFollowed(ctx, p.testbed, "pending", name, n, farAhead(p.testbed.now())); err != nil {
		return err
	}
	p.run.add(stagePending,
		Figure{What: "set, NDJSON, up to" + strings.TrimPrefix(p.many, ","), Unit: perSecond,
			Value: rate(n, time.Since(begun))},
		p.peakRSS(p.many+" set").atMost(rssTarget),
	)
	return p.run.settle(ctx, p.testbed)
}

// setAmongMany measures sets in the full table. The ceilings are bare inserts into the same table.
func (p *pendingStage) setAmongMany(ctx context.Context) error {
	steps, err := p.run.setRounds(ctx, p.testbed, "many", p.testbed.db.Full)
	if err != nil {
		return err
	}
	p.run.addSets(stagePending, p.many, steps)
	for i, s := range steps[:bulkWays] {
		none := figureOf(s.what+", few pending", perSecond, p.sets[i].rates)
		p.run.add(stagePending, figureOf(s.what+p.many, perSecond, s.rates).besideFigure(none).ratioAtLeast(fullTarget))
	}
	return p.run.settle(ctx, p.testbed)
}

// idle measures an idle node that was started among the many pending alarms.
func (p *pendingStage) idle(ctx context.Context) error {
	if err := p.testbed.restart(ctx); err != nil {
		return err
	}
	return p.run.idle(ctx, p.testbed, stagePending, p.many)
}

// ringAmongMany measures lateness among the many pending alarms, and the memory of a node that has had no other load.
func (p *pendingStage) ringAmongMany(ctx context.Context) error {
	if err := p.run.latenessAt(ctx, p.testbed, p.steadily("among")); err != nil {
		return err
	}
	f := p.peakRSS(p.many)
	p.run.add(stagePending, f.atMost(rssTarget), f.besideFigure(p.few).ratioAtMost(moreTarget))
	return nil
}

// ringFast measures a herd among the many pending alarms, and lateness at half the herd's rate.
func (p *pendingStage) ringFast(ctx context.Context) error {
	n := p.run.cfg.Herd
	h, err := p.run.ringHerd(ctx, p.testbed, stagePending, "herd", n, nil)
	if err != nil {
		return err
	}
	p.run.add(stagePending,
		Figure{What: "herd, " + commas(int64(n)) + " due at once" + p.many, Unit: perSecond, Value: h.rate()})
	return p.run.latenessAt(ctx, p.testbed, &steady{
		stage: stagePending, what: "lateness at half the herd's rate" + p.many, name: "half",
		rate: max(int(h.rate()/2), 1), before: true,
	})
}

// When a database counts as settled.
const (
	settledShare = 5 // largest share of a core that a settled database uses, in percent
	settleRounds = 9 // largest number of waits of Config.settle
)

// settle gives the database time for the work that many new alarms leave behind. In real use, millions of pending
// alarms were not set a moment ago.
func (r *run) settle(ctx context.Context, b *testbed) error {
	if r.cfg.settle == 0 {
		return nil
	}
	r.progress.say("wait until the database has settled")
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

// startAgain measures how soon a node rings alarms that came due while no node ran.
func (p *pendingStage) startAgain(ctx context.Context) error {
	for _, end := range endings(&p.run.cfg) {
		if err := p.run.start(ctx, p.testbed, stagePending, end, p.many); err != nil {
			return err
		}
	}
	return nil
}

// steadily describes the alarms that ring beside the pending alarms. name is the name of their series.
func (p *pendingStage) steadily(name string) *steady {
	perSecond := p.run.cfg.Rate
	return &steady{stage: stagePending, what: fmt.Sprintf("lateness at %d/s%s", perSecond, p.many), name: name,
		rate: perSecond}
}

// peakRSS returns the peak memory of the node since its start, as a figure.
func (p *pendingStage) peakRSS(suffix string) Figure {
	return Figure{What: "peak RSS" + suffix, Unit: mebibytes, Value: mib(p.testbed.child.peakRSS())}
}
