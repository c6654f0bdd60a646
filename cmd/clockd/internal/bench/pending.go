package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// rssTarget is issue 2's, in MiB.
const rssTarget = 150

// pending measures the memory that alarms far in the future cost, and the lateness of others beside them.
func (r *run) pending(ctx context.Context, b *bed) error {
	n := r.cfg.Pending
	r.progress.say("pending: %s alarms", commas(int64(n)))
	var sent atomic.Int64
	stop := r.progress.follow("pending", &sent, n)
	begun := time.Now()
	err := setLinesCounted(ctx, b, "ahead", n, farAhead(b.now()), &sent)
	took := time.Since(begun)
	stop()
	if err != nil {
		return err
	}
	aside := fmt.Sprintf("%s pending", commas(int64(n)))
	filled := b.child.peakRSS()
	if err := sleep(ctx, r.cfg.settle); err != nil {
		return err
	}
	late, err := r.ringSteadily(ctx, b, stagePending)
	if err != nil {
		return err
	}
	bare, err := r.bareLateness(ctx, b)
	if err != nil {
		return err
	}
	r.add(stagePending,
		Figure{What: "set, NDJSON, up to " + aside, Unit: perSecond, Value: rate(n, took)},
		Figure{What: "peak RSS, " + aside + " set", Unit: mebibytes, Value: mib(filled)}.atMost(rssTarget),
	)
	r.addLateness(stagePending, fmt.Sprintf("lateness at %d/s, %s", r.cfg.Rate, aside), late, bare)
	return nil
}
