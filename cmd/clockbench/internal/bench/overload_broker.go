package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Targets beside a slow broker.
const (
	recoveredWithin = 5   // seconds from the end of the slowness until all due alarms have rung
	unharmedP99     = 500 // milliseconds: p99 of single sets and cancels meanwhile
)

// slowBroker measures herds and constant rates while the broker's confirms come late. No ring may come twice.
func (r *run) slowBroker(ctx context.Context, b *testbed) error {
	if b.proxies.slowBroker == nil || b.proxies.broker == nil {
		return errors.New("the broker cannot be slowed down: it is not reached by TCP without TLS")
	}
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	if err := r.silentBroker(ctx, b); err != nil {
		return err
	}
	return r.lateConfirms(ctx, b)
}

// silentBroker rings a herd. In its middle the broker sends nothing for a while.
func (r *run) silentBroker(ctx context.Context, b *testbed) error {
	r.progress.say("overload: the broker falls silent for %s in the middle of a herd", r.cfg.silence)
	h, err := r.ringHerd(ctx, b, stageOverload, "silent", r.cfg.Herd, func() error {
		b.proxies.slowBroker.silence(r.cfg.silence)
		return nil
	})
	if err != nil {
		return err
	}
	r.add(stageOverload,
		copiesFigure(fmt.Sprintf("broker silent for %s in a herd of %s", r.cfg.silence, commas(int64(r.cfg.Herd))),
			h.rings, 0),
		Figure{What: "broker silent, last ring after", Unit: seconds, Value: h.took.Seconds()},
	)
	return nil
}

// lateConfirms rings alarms at a constant rate while confirms are late, and counts single sets and cancels meanwhile.
func (r *run) lateConfirms(ctx context.Context, b *testbed) (err error) {
	r.progress.say("overload: confirms come %s to %s late for %s", r.cfg.slowLeast, r.cfg.slowMost, r.cfg.slowFor)
	before, _, err := r.probed(ctx, b, "before", func(ctx context.Context) error { return sleep(ctx, r.cfg.slowFor/4) })
	if err != nil {
		return err
	}
	n := int(float64(r.cfg.Rate) * r.cfg.slowFor.Seconds())
	t := newTally("slow", n, evenly(b.now()+(r.cfg.ahead+latenessLead).Milliseconds(), r.cfg.Rate), b.offset)
	c, err := b.consume(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	b.proxies.slowBroker.delay(r.cfg.slowLeast, r.cfg.slowMost)
	during, refused, err := r.probed(ctx, b, "during",
		func(ctx context.Context) error { return r.setSteadily(ctx, b, t, r.cfg.Rate) })
	rungBefore := t.sum().Rung
	b.proxies.slowBroker.end()
	fast := time.Now()
	if err != nil {
		return err
	}
	rings, err := t.wait(ctx, time.Now().Add(r.cfg.ahead), lostAfter)
	if err != nil {
		return err
	}
	r.addRings(b, stageOverload, rings)
	what := "slow confirms"
	r.add(stageOverload,
		copiesFigure(fmt.Sprintf("%s of %s to %s at %d/s", what, r.cfg.slowLeast, r.cfg.slowMost, r.cfg.Rate), rings,
			0),
		Figure{What: what + ", rung meanwhile", Value: float64(rungBefore)},
		Figure{What: what + ", single sets and cancels, p99", Unit: millis, Value: ms(during.P99)}.beside("before",
			ms(before.P99)).atMost(unharmedP99),
		Figure{What: what + ", single sets and cancels refused", Value: float64(refused)}.judged("0", refused == 0),
		Figure{What: what + ", all rung after their end", Unit: seconds, Value: time.Since(fast).Seconds()}.
			judged(fmt.Sprintf("<= %d s", recoveredWithin), t.lastRing().Sub(fast) <= recoveredWithin*time.Second),
	)
	return nil
}

// copiesFigure is the number of rings that came more than once.
func copiesFigure(what string, rings Rings, most int) Figure {
	copies := rings.copies()
	return Figure{What: what + ", copies", Value: float64(copies)}.judged(fmt.Sprintf("<= %d", most), copies <= most)
}
