package stream

import (
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// batch is the rings of one call of Deliver. After the call it keeps the rings that subscribers have taken and not reported yet, which are
// Awaited. A subscriber reports at the latest when its write deadline ends its connection.
type batch struct {
	parts    []*handover
	outcomes []clock.Outcome
	ctx      context.Context //nolint:containedctx // subscribers end their writes with it
	cancel   func()          // ends ctx
}

func newBatch(rings int) *batch {
	b := &batch{outcomes: make([]clock.Outcome, rings)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	return b
}

var _ ring.LateRings = (*batch)(nil)

// forgetReported forgets the parts that are reported.
func (b *batch) forgetReported() {
	b.parts = slices.DeleteFunc(b.parts, func(h *handover) bool { return h.unreported == 0 })
}

// Outcomes returns the outcomes that are known now; see ring.LateRings.
func (b *batch) Outcomes() []clock.Outcome {
	for _, h := range b.parts {
		h.takeReports()
	}
	b.forgetReported()
	return b.outcomes
}

// Stuck returns false. A subscriber that does not read is cut off by its write deadline, and that is a report.
func (b *batch) Stuck() bool { return false }

// End makes rings without a report doubtful, and ends the writes of their subscribers; see ring.LateRings.
func (b *batch) End() {
	b.cancel()
	for i := range b.Outcomes() {
		if o := &b.outcomes[i]; o.Kind == clock.Awaited {
			*o = clock.Outcome{Kind: clock.Doubtful, Reason: "the subscriber did not report whether the ring was written"}
		}
	}
	b.parts = nil
}

// takeReports notes the reports that have come.
func (h *handover) takeReports() {
	for h.unreported > 0 {
		select {
		case r := <-h.reports:
			h.noteReport(r)
		default:
			return
		}
	}
}
