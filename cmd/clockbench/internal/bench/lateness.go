package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	setsASecond  = 10 // batches of sets per second
	bareFor      = 10 * time.Second
	latenessLead = 500 * time.Millisecond
)

// The largest allowed lateness of rings, in milliseconds.
const (
	p50Target  = 2
	p99Target  = 10
	p999Target = 50
)

// steady describes alarms at a constant rate.
type steady struct {
	stage, what string
	name        string // name of the series, new in the testbed
	rate        int    // alarms per second
	// before: all alarms are set before the first is due, so that the machine only rings. Otherwise alarms are set
	// while others ring.
	before bool
}

// lateness measures how late alarms ring at a constant rate. The ceiling is the bare loop at that rate.
func (r *run) lateness(ctx context.Context, b *testbed) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	return r.latenessAt(ctx, b,
		&steady{stage: stageLateness, what: fmt.Sprintf("lateness at %d/s", r.cfg.Rate), name: "late",
			rate: r.cfg.Rate})
}

// latenessAt measures the lateness at one rate.
func (r *run) latenessAt(ctx context.Context, b *testbed, s *steady) error {
	late, err := r.ringSteadily(ctx, b, s)
	if err != nil {
		return err
	}
	bare, err := r.bareLateness(ctx, b, s.rate)
	if err != nil {
		return err
	}
	r.add(s.stage, latenessFigures(s.what, late, "bare loop", bare)...)
	return nil
}

// latenessFigures returns the figures of a lateness, beside the lateness of a bare program.
func latenessFigures(what string, late spread, bareWhat string, bare spread) []Figure {
	figures := []Figure{
		Figure{What: what + ", p50", Unit: millis, Value: ms(late.P50)}.atMost(p50Target),
		Figure{What: what + ", p99", Unit: millis, Value: ms(late.P99)}.atMost(p99Target),
		Figure{What: what + ", p99.9", Unit: millis, Value: ms(late.P999)}.atMost(p999Target),
		{What: what + ", max", Unit: millis, Value: ms(late.Max)},
	}
	for i, d := range []time.Duration{bare.P50, bare.P99, bare.P999, bare.Max} {
		figures[i] = figures[i].beside(bareWhat, ms(d))
	}
	return figures
}

// evenly returns due times at a constant rate, beginning at an instant.
func evenly(from int64, perSecond int) func(n int) int64 {
	return func(n int) int64 { return from + int64(n)*1000/int64(perSecond) }
}

// ringSteadily sets alarms at a constant rate, takes their rings and returns their lateness.
func (r *run) ringSteadily(ctx context.Context, b *testbed, s *steady) (late spread, err error) {
	n := int(float64(s.rate) * r.cfg.For.Seconds())
	r.progress.say("%s: %d alarms a second for %s", s.stage, s.rate, r.cfg.For)
	if !s.before {
		t := newTally(series(s.name), n, evenly(b.now()+(r.cfg.ahead+latenessLead).Milliseconds(), s.rate), b.offset)
		return r.takeSteadily(ctx, b, s, t, func() error { return r.setSteadily(ctx, b, t, s.rate) })
	}
	err = r.inTime(b, n, func(try int, ahead time.Duration) error {
		t := newTally(series(fmt.Sprintf("%s%d", s.name, try)), n, evenly(b.now()+ahead.Milliseconds(), s.rate),
			b.offset)
		late, err = r.takeSteadily(ctx, b, s, t, func() error { return r.setBefore(ctx, b, t) })
		return err
	})
	return late, err
}

// takeSteadily calls set, which sets the tally's alarms, and takes their rings. It waits for the rings even if set
// returns errSlow.
func (r *run) takeSteadily(
	ctx context.Context, b *testbed, s *steady, t *tally, set func() error,
) (late spread, err error) {
	c, err := b.consume(ctx, t)
	if err != nil {
		return late, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	slow := set()
	if slow != nil && !errors.Is(slow, errSlow) {
		return late, slow
	}
	rings, err := t.wait(ctx, time.Now().Add(r.cfg.ahead), lostAfter)
	if err != nil || slow != nil {
		return late, errors.Join(err, slow)
	}
	r.addRings(b, s.stage, rings)
	return t.lateness(), nil
}

// setBefore sets the tally's alarms as fast as possible. It returns errSlow if the first alarm was due before all were
// set.
func (r *run) setBefore(ctx context.Context, b *testbed, t *tally) error {
	if err := r.setFollowed(ctx, b, "set", t.series, len(t.first), t.ringAt); err != nil {
		return err
	}
	if b.since(t.ringAt(0), time.Now()) > 0 {
		return errSlow
	}
	return nil
}

// setSteadily sets the tally's alarms, each at Config.ahead before it is due.
func (r *run) setSteadily(ctx context.Context, b *testbed, t *tally, perSecond int) error {
	conn, err := dialHTTP(ctx, b.child.url)
	if err != nil {
		return err
	}
	defer conn.close()
	a, n := &arrays{httpConn: conn, series: t.series}, len(t.first)
	size := min(max(perSecond/setsASecond, 1), bulkRows)
	for from := 0; from < n; from += size {
		ahead := -b.since(t.ringAt(from), time.Now())
		if err := sleep(ctx, ahead-r.cfg.ahead); err != nil {
			return err
		}
		conn.use(b.application(from / size))
		if err := a.set(from, min(from+size, n), t.ringAt); err != nil {
			return err
		}
		if !r.cfg.quick && b.since(t.ringAt(from), time.Now()) > 0 {
			return fmt.Errorf("%d a second: %w", perSecond, errSlow)
		}
	}
	return nil
}

// bareLateness returns the lateness of the bare loop at the same rate.
func (r *run) bareLateness(ctx context.Context, b *testbed, perSecond int) (late spread, err error) {
	table, err := b.db.Bare(ctx)
	if err != nil {
		return late, err
	}
	defer func() { _ = table.Close() }()
	took := min(r.cfg.For, bareFor)
	n := int(float64(perSecond) * took.Seconds())
	lead := time.Second + time.Duration(n)*100*time.Microsecond // time to fill the table
	t := newTally("bare", n, evenly(time.Now().Add(lead).UnixMilli(), perSecond), clockOffset{})
	r.progress.say("bare loop: %d alarms a second for %s", perSecond, took)
	ids, ringer, c, err := bareTestbed(ctx, b, table, t, true)
	if err != nil {
		return late, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	defer ringer.close()
	committed, err := ringer.steadily(ctx, ids, t.ringAt)
	if err != nil || b.broker == nil {
		return spreadOf(committed), err
	}
	if rings, err := t.wait(ctx, time.Now(), lostAfter); err != nil || rings.Lost > 0 {
		return late, errors.Join(err, fmt.Errorf("bare loop: %d messages were lost", rings.Lost))
	}
	return t.lateness(), nil
}
