package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Burst is how late the alarms of one burst rang.
type Burst struct {
	Pending  int       `json:"pending"` // others, far ahead
	Alarms   int       `json:"alarms"`  // due evenly within a second; 1: single ones, one after the other
	Killed   bool      `json:"killed"`  // one of two nodes was killed in the midst
	Lateness Histogram `json:"lateness"`
}

// name says what the lateness is of.
func (b *Burst) name() string {
	text := fmt.Sprintf("%s, %s pending", burstName(b.Alarms), commas(int64(b.Pending)))
	if b.Killed {
		text += ", a node killed"
	}
	return text
}

// burstName names a burst of so many alarms.
func burstName(alarms int) string {
	if alarms == 1 {
		return "single alarms"
	}
	return fmt.Sprintf("%s within 1 s", commas(int64(alarms)))
}

const (
	burstTime = time.Second
	// singlyApart is how far single alarms are apart, in milliseconds: a prime, so that they do not keep step with what is
	// done at regular times.
	singlyApart = 53
	// secondNode is the one that is killed.
	secondNode = "bench2"
)

// distribution measures how late bursts ring among more and more pending alarms, and how late while a node is killed.
func (r *run) distribution(ctx context.Context, b *bed) error {
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

// burstsAmong returns the bursts to ring among so many others. Nodes are killed where there can be two, and their rings can still be
// had: streams are the node's that serves them.
func (r *run) burstsAmong(b *bed, pending int) []Burst {
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

// burst rings a burst, and adds how late it was; one that was due before all of it was set is set again, further ahead.
func (r *run) burst(ctx context.Context, b *bed, burst *Burst) error {
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

// burstSize returns how many alarms a burst has, and by how many milliseconds each is due after the first.
func (r *run) burstSize(burst *Burst) (n int, apart func(n int) int64) {
	if burst.Alarms == 1 {
		return r.cfg.singly, func(n int) int64 { return int64(n) * singlyApart }
	}
	return burst.Alarms, evenly(0, burst.Alarms)
}

// ringBurst sets a burst and takes its rings; in the midst the victim is killed, unless it is nil. Where an alarm was due before
// the last was set it says errSlow, once all have rung.
func (r *run) ringBurst(ctx context.Context, b *bed, t *tally, victim *child) (rings Rings, err error) {
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
	if rings, err = t.wait(ctx, lastDue, patience); err == nil && left <= 0 {
		err = errSlow
	}
	return rings, err
}

// addBurst adds how late the rings of a tally were.
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
