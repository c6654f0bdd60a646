package ring

import (
	"time"

	"github.com/clockd/clockd/clock"
)

// Delivery is the hand-over of a batch to a target, as Deps.Observe sees it.
type Delivery struct {
	Target   clock.TargetKind
	Rings    []clock.Ring
	Outcomes []clock.Outcome // one per ring. An Awaited ring comes a second time, in a late Delivery
	Now      clock.Instant   // database's time when the outcomes were known
	Begun    time.Time       // local time at which the hand-over began
	Ended    time.Time       // local time at which it ended
	Late     bool            // these are late outcomes of an earlier delivery; Begun and Ended are zero
}

// observe passes a delivery to the observer, if there is one.
func (l *Loop) observe(d Delivery) {
	if l.observer != nil {
		l.observer(d)
	}
}
