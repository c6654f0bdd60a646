package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	setsASecond  = 10 // batches
	bareFor      = 10 * time.Second
	p99Target    = 20 // milliseconds, issue 2's
	latenessLead = 500 * time.Millisecond
)

// lateness measures how late alarms ring at a constant rate, beside the bare loop at that rate.
func (r *run) lateness(ctx context.Context, b *bed) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	late, err := r.ringSteadily(ctx, b, stageLateness)
	if err != nil {
		return err
	}
	bare, err := r.bareLateness(ctx, b)
	if err != nil {
		return err
	}
	r.addLateness(stageLateness, fmt.Sprintf("lateness at %d/s", r.cfg.Rate), late, bare)
	return nil
}

// addLateness adds a spread beside the bare loop's.
func (r *run) addLateness(stage, what string, late, bare spread) {
	figures := []Figure{
		{What: what + ", p50", Unit: millis, Value: ms(late.P50)},
		{What: what + ", p99", Unit: millis, Value: ms(late.P99)},
		{What: what + ", p99.9", Unit: millis, Value: ms(late.P999)},
		{What: what + ", max", Unit: millis, Value: ms(late.Max)},
	}
	for i, d := range []time.Duration{bare.P50, bare.P99, bare.P999, bare.Max} {
		figures[i] = figures[i].beside("bare loop", ms(d))
	}
	figures[1] = figures[1].atMost(p99Target)
	r.add(stage, figures...)
}

// evenly returns due times at the rate, from an instant on.
func evenly(from int64, perSecond int) func(n int) int64 {
	return func(n int) int64 { return from + int64(n)*1000/int64(perSecond) }
}

// ringSteadily sets alarms a few seconds ahead, at the rate at which others ring, and returns how late they came.
func (r *run) ringSteadily(ctx context.Context, b *bed, stage string) (late spread, err error) {
	n := int(float64(r.cfg.Rate) * r.cfg.For.Seconds())
	at := evenly(b.now()+(r.cfg.ahead+latenessLead).Milliseconds(), r.cfg.Rate)
	t := newTally("late", n, at, b.offset)
	c, err := b.consume(ctx, t)
	if err != nil {
		return late, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	r.progress.say("%s: %d alarms a second for %s", stage, r.cfg.Rate, r.cfg.For)
	if err := r.setSteadily(ctx, b, t, n); err != nil {
		return late, err
	}
	rings, err := t.wait(ctx, time.Now().Add(r.cfg.ahead), patience)
	if err != nil {
		return late, err
	}
	r.addRings(b, stage, rings)
	return t.lateness(), nil
}

// setSteadily sets the tally's alarms, each some time before it is due.
func (r *run) setSteadily(ctx context.Context, b *bed, t *tally, n int) error {
	conn, err := dialHTTP(ctx, b.child.url)
	if err != nil {
		return err
	}
	defer conn.close()
	a := &arrays{httpConn: conn, series: t.series}
	size := min(max(r.cfg.Rate/setsASecond, 1), bulkRows)
	for from := 0; from < n; from += size {
		ahead := -b.since(t.ringAt(from), time.Now())
		if err := sleep(ctx, ahead-r.cfg.ahead); err != nil {
			return err
		}
		if err := a.set(from, min(from+size, n), t.ringAt); err != nil {
			return err
		}
		if !r.cfg.quick && b.since(t.ringAt(from), time.Now()) > 0 {
			return fmt.Errorf("alarms cannot be set at %d a second: one was due before it was set", r.cfg.Rate)
		}
	}
	return nil
}

// bareLateness rings at the same rate with the bare loop.
func (r *run) bareLateness(ctx context.Context, b *bed) (late spread, err error) {
	table, err := b.db.Bare(ctx)
	if err != nil {
		return late, err
	}
	defer func() { _ = table.Close() }()
	took := min(r.cfg.For, bareFor)
	n := int(float64(r.cfg.Rate) * took.Seconds())
	lead := time.Second + time.Duration(n)*100*time.Microsecond // to fill the table in
	t := newTally("bare", n, evenly(time.Now().Add(lead).UnixMilli(), r.cfg.Rate), clockOffset{})
	r.progress.say("bare loop: %d alarms a second for %s", r.cfg.Rate, took)
	ids, ringer, c, err := bareBed(ctx, b, table, t, true)
	if err != nil {
		return late, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	defer ringer.close()
	committed, err := ringer.steadily(ctx, ids, t.ringAt)
	if err != nil || b.broker == nil {
		return spreadOf(committed), err
	}
	if rings, err := t.wait(ctx, time.Now(), patience); err != nil || rings.Lost > 0 {
		return late, errors.Join(err, fmt.Errorf("bare loop: %d messages were lost", rings.Lost))
	}
	return t.lateness(), nil
}
