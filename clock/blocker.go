package clock

// Blocker is a reason why due alarms do not ring now, as one node knows it.
type Blocker struct {
	Code   BlockerCode
	Target string // target of the concerned alarms, as TargetText has it; empty: none, or all targets
	Detail string // a sentence for people, without a full stop
}

// BlockerCode names a kind of Blocker.
type BlockerCode string

// The codes of blockers, from the broadest to the narrowest.
const (
	BlockedByNode       BlockerCode = "node"        // this node can ring no alarm at all: its leases, claims or settings fail
	BlockedElsewhere    BlockerCode = "other_node"  // another node rings the alarm, and knows the reason
	BlockedByPause      BlockerCode = "paused"      // a person has paused the application
	BlockedByRoute      BlockerCode = "no_target"   // this node has no target for the application
	BlockedByTarget     BlockerCode = "target_down" // the target is away with all its applications
	BlockedByNoReceiver BlockerCode = "no_receiver" // the target has no receiver of the application: no subscriber, worker or endpoint
	BlockedByFailures   BlockerCode = "failing"     // the last rings failed, so alarms ring in small batches
	BlockedByHold       BlockerCode = "held"        // no ring is delivered, so one due alarm of the application is tried each second
)
