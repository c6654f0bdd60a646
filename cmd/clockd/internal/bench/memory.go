package bench

import (
	"context"
)

// rssTarget is the most memory that a node may need, in MiB, however many alarms there are.
const rssTarget = 128

// memory measures what many alarms at one instant need, that are consumed as they ring.
func (r *run) memory(ctx context.Context, b *bed) error {
	n := r.cfg.Crowd
	// enough to learn how far ahead the others must be due
	if err := r.setFollowed(ctx, b, "warm up", "warm", max(n/10, 1), farAhead(b.now())); err != nil {
		return err
	}
	h, err := r.ringHerd(ctx, b, stageMemory, "crowd", n)
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
