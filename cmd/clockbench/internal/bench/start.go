package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// startTarget is the longest allowed time from a node's start to its first ring, in seconds.
const startTarget = 2

// ending is a way to end the first node: how, and how long before the alarms are due.
type ending struct {
	how  string
	lead time.Duration
	end  func(*child) error
}

// endings returns a graceful stop, which takes some time, and a crash as late as possible. After the crash, the leases
// and claims of the dead process still last when the next process starts.
func endings(cfg *Config) []ending {
	return []ending{
		{"SIGTERM", cfg.ahead, (*child).stop},
		{"SIGKILL", 300 * time.Millisecond, func(c *child) error { c.kill(); return nil }},
	}
}

// start measures how soon a started node rings alarms that came due while no node ran.
func (r *run) start(ctx context.Context, b *testbed, stage string, end ending, suffix string) error {
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
		what := fmt.Sprintf("start after %s, %s overdue%s", end.how, commas(int64(n)), suffix)
		r.add(stage,
			Figure{What: what + ", first ring after", Unit: seconds, Value: first.Seconds()}.atMost(startTarget),
			Figure{What: what + ", rings", Unit: perSecond,
				Value: rate(rings.Rung, b.since(due, t.lastRing())-t.firstLateness())},
		)
		return nil
	})
}

// startOverdue sets the tally's alarms, ends the node before they are due, starts it again when they are due, and takes
// the rings. It returns the time of the start. If the alarms were due before the node had ended, it waits for all rings
// and returns errSlow.
func (r *run) startOverdue(
	ctx context.Context, b *testbed, t *tally, due int64, end ending,
) (begun time.Time, rings Rings, err error) {
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
	rings, err = t.wait(ctx, time.Now(), lostAfter)
	if slow {
		err = errors.Join(err, errSlow)
	}
	return begun, rings, err
}

// endBefore sets the tally's alarms and ends the node. It returns when the alarms are due. slow says that they were due
// before the node had ended.
func (r *run) endBefore(ctx context.Context, b *testbed, t *tally, due int64, end ending) (slow bool, err error) {
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

// restartConsumed starts the first node again and takes its rings. A queue's consumer begins before the start.
func (b *testbed) restartConsumed(ctx context.Context, t *tally) (*consumer, error) {
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
