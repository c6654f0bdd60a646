package clock

// DropReason is the reason for refusing an op before it is written, as metrics name it.
type DropReason string

// The reasons for dropping an op.
const (
	DropQueueFull DropReason = "queue_full" // the application has three quarters of the queue, or the most of a full queue
	DropQueueSlow DropReason = "queue_slow" // the application's ops wait too long in the queue
	DropKeyFull   DropReason = "key_full"   // too many requests on one key
	DropAbandoned DropReason = "abandoned"  // the caller waits no longer
	DropStopping  DropReason = "stopping"   // the node is stopping
)

// DropReasons are all reasons for dropping an op.
var DropReasons = []DropReason{DropQueueFull, DropQueueSlow, DropKeyFull, DropAbandoned, DropStopping}

// refusals are the code and the detail of the error for each reason.
var refusals = map[DropReason]struct{ code, detail string }{
	DropQueueFull: {CodeOverloaded, "too many requests of the application are queued; repeat later"},
	DropQueueSlow: {CodeOverloaded, "requests of the application wait too long before they are written; repeat later"},
	DropKeyFull:   {CodeKeyOverloaded, "too many requests wait for this alarm; repeat later"},
	DropAbandoned: {CodeUnavailable,
		"the client left, or its time was over, before the change was written: nothing was changed"},
	DropStopping: {CodeUnavailable, "the node is stopping; repeat the request"},
}
