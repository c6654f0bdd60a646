package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Burst is the lateness of the alarms in one burst.
type Burst struct {
	Pending  int       `json:"pending"` // other alarms, due far ahead
	Alarms   int       `json:"alarms"`  // alarms due evenly within a second; 1: single alarms, one after the other
	Killed   bool      `json:"killed"`  // a node was killed during the burst; there were two
	Lateness Histogram `json:"lateness"`
}

// name describes the burst.
func (b *Burst) name() string {
	text := fmt.Sprintf("%s, %s pending", burstName(b.Alarms), commas(int64(b.Pending)))
	if b.Killed {
		text += ", a node killed"
	}
	return text
}

// burstName describes a burst of this size.
func burstName(alarms int) string {
	if alarms == 1 {
		return "single alarms"
	}
	return fmt.Sprintf("%s within 1 s", commas(int64(alarms)))
}

const (
	burstTime = time.Second
	// singleAlarmGap is the time between single alarms, in milliseconds. It is a prime, so that the alarms do not keep
	// step with regular work.
	singleAlarmGap = 53
	// secondNode is the name of the killed node.
	secondNode = "bench2"
)

// distribution measures the lateness of bursts among more and more pending alarms, without and with a killed node.
func (r *run) distribution(ctx context.Context, b *testbed) error {
	pending := 0
	for _, n := range r.cfg.DistributionPending {
		r.progress.say("distribution: %s pending alarms", commas(int64(n)))
		if err := r.setFollowed(ctx, b, "pending", series(fmt.Sprintf("ahead%d", n)), n-pending, farAhead(b.now())); err != nil {
			return err
		}
		pending = n
		if err := r.settle(ctx, b); err != nil {
			return err
		}
		for _, burst := range r.burstsAmong(b, pending) {
			if err := r.burst(ctx, b, &burst); err != nil {
				return fmt.Errorf("%s: %w", burst.name(), err)
			}
		}
	}
	return nil
}

// burstsAmong returns the bursts to ring among so many pending alarms. A node is killed only if there can be two nodes,
// and if the other node can deliver the rings. A stream belongs to the node that serves it.
func (r *run) burstsAmong(b *testbed, pending int) []Burst {
	bursts := []Burst{{Pending: pending, Alarms: 1}}
	for _, n := range r.cfg.bursts {
		bursts = append(bursts, Burst{Pending: pending, Alarms: n})
	}
	if _, embedded := b.db.(*sqliteDatabase); embedded || b.broker == nil {
		return bursts
	}
	for _, n := range r.cfg.bursts {
		bursts = append(bursts, Burst{Pending: pending, Alarms: n, Killed: true})
	}
	return bursts
}

// burst rings a burst and adds its lateness. If an alarm was due before all were set, it sets the burst again, further
// ahead.
func (r *run) burst(ctx context.Context, b *testbed, burst *Burst) error {
	r.progress.say("distribution: %s", burst.name())
	var victim *child
	if burst.Killed {
		var err error
		if victim, err = b.startNode(ctx, secondNode); err != nil {
			return err
		}
		if err := b.waitShares(ctx, 2); err != nil {
			return err
		}
	}
	n, apart := r.burstSize(burst)
	return r.inTime(b, n, func(try int, ahead time.Duration) error {
		from := b.now() + ahead.Milliseconds()
		name := series(fmt.Sprintf("burst%d-%d", len(r.report.Distribution), try))
		t := newTally(name, n, func(n int) int64 { return from + apart(n) }, b.offset)
		rings, err := r.ringBurst(ctx, b, t, victim)
		if err == nil {
			r.addRings(b, stageDistribution, rings)
			r.addBurst(burst, t)
		}
		return err
	})
}

// burstSize returns the number of alarms in a burst. apart returns how many milliseconds after the first alarm n is
// due.
func (r *run) burstSize(burst *Burst) (n int, apart func(n int) int64) {
	if burst.Alarms == 1 {
		return r.cfg.singleAlarms, func(n int) int64 { return int64(n) * singleAlarmGap }
	}
	return burst.Alarms, evenly(0, burst.Alarms)
}

// ringBurst sets a burst and takes its rings. If victim is not nil, it kills the victim during the burst. If an alarm
// was due before the last was set, it waits for all rings and returns errSlow.
func (r *run) ringBurst(ctx context.Context, b *testbed, t *tally, victim *child) (rings Rings, err error) {
	c, err := b.consume(ctx, t)
	if err != nil {
		return rings, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	n := len(t.first)
	if err := setLines(ctx, b, t.series, n, t.ringAt); err != nil {
		return rings, err
	}
	left := -b.since(t.ringAt(0), time.Now())
	if left > 0 && victim != nil {
		if err := sleep(ctx, left+burstTime/2); err != nil {
			return rings, err
		}
		victim.kill()
	}
	lastDue := time.Now().Add(-b.since(t.ringAt(n-1), time.Now()))
	if rings, err = t.wait(ctx, lastDue, lostAfter); err == nil && left <= 0 {
		err = errSlow
	}
	return rings, err
}

// addBurst adds the lateness of the tally's rings to the report.
func (r *run) addBurst(burst *Burst, t *tally) {
	late := t.lateness()
	burst.Lateness = histogramOf(t.late)
	r.report.Distribution = append(r.report.Distribution, *burst)
	what := "lateness of " + burst.name()
	r.add(stageDistribution,
		Figure{What: what + ", p50", Unit: millis, Value: ms(late.P50)},
		Figure{What: what + ", p99", Unit: millis, Value: ms(late.P99)},
		Figure{What: what + ", p99.9", Unit: millis, Value: ms(late.P999)},
		Figure{What: what + ", max", Unit: millis, Value: ms(late.Max)},
	)
}
