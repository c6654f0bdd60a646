package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// startTarget is how soon after its start a node rings, in seconds.
const startTarget = 2

// ending is how the process before is ended, and how long before the alarms are due.
type ending struct {
	how  string
	lead time.Duration
	end  func(*child) error
}

// endings are a stop in good order, which takes some time, and a crash as late as can be: what the dead process held is still held when
// the next one starts.
func endings(cfg *Config) []ending {
	return []ending{
		{"SIGTERM", cfg.ahead, (*child).stop},
		{"SIGKILL", 300 * time.Millisecond, func(c *child) error { c.kill(); return nil }},
	}
}

// start measures how soon a node rings alarms that came due while there was none.
func (r *run) start(ctx context.Context, b *bed, stage string, end ending, aside string) error {
	n := r.cfg.Overdue
	return r.inTime(b, n, func(try int, ahead time.Duration) error {
		due := b.now() + (ahead + end.lead).Milliseconds()
		t := newTally(series(fmt.Sprintf("%s%d", end.how, try)), n, func(int) int64 { return due }, b.offset)
		begun, rings, err := r.startOverdue(ctx, b, t, due, end)
		if err != nil {
			return err
		}
		first := t.firstLateness() - b.since(due, begun)
		r.addRings(b, stage, rings)
		what := fmt.Sprintf("start after %s, %s overdue%s", end.how, commas(int64(n)), aside)
		r.add(stage,
			Figure{What: what + ", first ring after", Unit: seconds, Value: first.Seconds()}.atMost(startTarget),
			Figure{What: what + ", rings", Unit: perSecond, Value: rate(rings.Rung, b.since(due, t.lastRing())-t.firstLateness())},
		)
		return nil
	})
}

// startOverdue sets the tally's alarms, ends the node before they are due, starts it again once they are, and takes the rings. It returns
// when it was started. Alarms that are due before the node has ended are errSlow, once all have rung.
func (r *run) startOverdue(ctx context.Context, b *bed, t *tally, due int64, end ending) (begun time.Time, rings Rings, err error) {
	slow, err := r.endBefore(ctx, b, t, due, end)
	if err != nil {
		return begun, rings, err
	}
	r.progress.say("start after %s", end.how)
	begun = time.Now()
	c, err := b.restartConsumed(ctx, t)
	if err != nil {
		return begun, rings, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	rings, err = t.wait(ctx, time.Now(), patience)
	if slow {
		err = errors.Join(err, errSlow)
	}
	return begun, rings, err
}

// endBefore sets the tally's alarms, ends the node and returns when they are due. slow says that they were due before.
func (r *run) endBefore(ctx context.Context, b *bed, t *tally, due int64, end ending) (slow bool, err error) {
	if err := r.setFollowed(ctx, b, "overdue", t.series, len(t.first), t.ringAt); err != nil {
		return false, err
	}
	if err := sleep(ctx, -b.since(due, time.Now())-end.lead); err != nil {
		return false, err
	}
	if err := end.end(b.child); err != nil {
		return false, err
	}
	left := -b.since(due, time.Now())
	return left < 0, sleep(ctx, left)
}

// restartConsumed starts the first node again and takes its rings: a queue's from before the start on.
func (b *bed) restartConsumed(ctx context.Context, t *tally) (*consumer, error) {
	if b.broker == nil {
		if err := b.restart(ctx); err != nil {
			return nil, err
		}
		return b.consume(ctx, t)
	}
	c, err := b.consume(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := b.restart(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}
