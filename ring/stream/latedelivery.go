package stream

import (
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// lateDelivery is the rings of one call of Deliver. After the call it keeps the rings that subscribers have taken and
// not reported yet. These rings are Awaited. A subscriber reports at the latest when its write deadline ends its
// connection.
type lateDelivery struct {
	parts    []*handover
	outcomes []clock.Outcome
	ctx      context.Context //nolint:containedctx // subscribers end their writes with it
	cancel   func()          // ends ctx
}

func newLateDelivery(rings int) *lateDelivery {
	d := &lateDelivery{outcomes: make([]clock.Outcome, rings)}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

var _ ring.LateRings = (*lateDelivery)(nil)

// forgetReported forgets the parts that are reported.
func (d *lateDelivery) forgetReported() {
	d.parts = slices.DeleteFunc(d.parts, func(h *handover) bool { return h.unreported == 0 })
}

// Outcomes returns the outcomes that are known now; see ring.LateRings.
func (d *lateDelivery) Outcomes() []clock.Outcome {
	for _, h := range d.parts {
		h.takeReports()
	}
	d.forgetReported()
	return d.outcomes
}

// Stuck returns false. A subscriber that does not read is cut off by its write deadline, and that is a report.
func (d *lateDelivery) Stuck() bool { return false }

// End makes rings without a report doubtful, and ends the writes of their subscribers; see ring.LateRings.
func (d *lateDelivery) End() {
	d.cancel()
	for i := range d.Outcomes() {
		if o := &d.outcomes[i]; o.Kind == clock.Awaited {
			*o = clock.Outcome{Kind: clock.Doubtful,
				Reason: "the subscriber did not report whether the ring was written"}
		}
	}
	d.parts = nil
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
