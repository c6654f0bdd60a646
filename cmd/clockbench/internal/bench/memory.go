package bench

import (
	"context"
)

// rssTarget is the largest allowed memory of a node, in MiB, for any number of alarms.
const rssTarget = 128

// memory measures the memory of a node while many alarms ring that are due at one instant. The rings are consumed at
// the same time.
func (r *run) memory(ctx context.Context, b *testbed) error {
	n := r.cfg.Crowd
	// these sets show how far ahead the other alarms must be due
	if err := r.setFollowed(ctx, b, "warm up", "warm", max(n/10, 1), farAhead(b.now())); err != nil {
		return err
	}
	h, err := r.ringHerd(ctx, b, stageMemory, "crowd", n, nil)
	if err != nil {
		return err
	}
	what := commas(int64(n)) + " due at once"
	r.add(stageMemory,
		Figure{What: "herd, " + what, Unit: perSecond, Value: h.rate()},
		Figure{What: "peak RSS, " + what, Unit: mebibytes, Value: mib(b.child.peakRSS())}.atMost(rssTarget),
	)
	return nil
}
