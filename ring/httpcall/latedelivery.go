package httpcall

import (
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// lateDelivery is the rings of one call of Deliver. After the call it keeps the requests without a reply. Their rings
// are Awaited. Each request ends at the latest with the timeout of its endpoint.
type lateDelivery struct {
	parts    []*handover
	outcomes []clock.Outcome
}

var _ ring.LateRings = (*lateDelivery)(nil)

// forgetReported forgets the parts that are reported.
func (d *lateDelivery) forgetReported() {
	d.parts = slices.DeleteFunc(d.parts, func(h *handover) bool { return len(h.calls) == 0 })
}

// Outcomes returns the outcomes that are known now; see ring.LateRings.
func (d *lateDelivery) Outcomes() []clock.Outcome {
	for _, h := range d.parts {
		h.takeReports()
	}
	d.forgetReported()
	return d.outcomes
}

// Stuck returns false. A receiver without a reply is given up after the timeout of its endpoint, and that is an
// outcome.
func (d *lateDelivery) Stuck() bool { return false }

// End ends the requests without a reply, and makes their rings doubtful; see ring.LateRings.
func (d *lateDelivery) End() {
	for i := range d.Outcomes() {
		if o := &d.outcomes[i]; o.Kind == clock.Awaited {
			*o = clock.Outcome{Kind: clock.Doubtful, Reason: errEnded.Error()}
		}
	}
	for _, h := range d.parts {
		h.end()
	}
	d.parts = nil
}
