package ring

import "time"

// measureSuspension returns a function that returns the time for which the machine has been suspended since this call.
// The monotonic clock stands still during a suspension, and the limits of a delivery use that clock. The function does
// not notice a pause that a hypervisor hides from its guest.
func measureSuspension() func() time.Duration {
	before := suspended()
	return func() time.Duration { return suspended() - before }
}
