package clock

import "strings"

// RingRow holds the fields of an alarm's row that a ring changes. FateOf returns these fields after the ring.
type RingRow struct {
	State       State
	NextTryTime Instant // next due time, never before the write that stored it; NoInstant for finished and paused alarms
	RingNo      int     // confirmed rings of this generation; of a repeating alarm plus the occurrences that ended without a ring
	RetryTimes  int     // failed tries of this generation
	LastError   string
	InDoubt     bool    // a try was published, and its outcome is unknown
	ClaimID     string  // claim of the last confirmed ring
	RungAt      Instant // claim time of the last confirmed ring; NoInstant before it and in a two-phase claim
	UpdateTime  Instant // time of the last change
	FinishedAt  Instant // end of the alarm; NoInstant for unfinished alarms
	// DoubtTarget is where the try in doubt or in flight went. NoTarget: there is no such try, the alarm is over, or
	// the try is older than this field.
	DoubtTarget TargetKind
	Progress    Progress // occurrences of a repeating alarm; zero for an alarm that rings once
}

// Claimed reports whether a two-phase claim has taken the alarm. Its ring is in flight, or it was lost with its node.
func (r *RingRow) Claimed() bool { return r.State == Ringing && r.RungAt == NoInstant }

// KeepDoubtTarget sets DoubtTarget to the target of the latest try whose outcome is unknown, or to NoTarget if the row
// has no such try.
func (r *RingRow) KeepDoubtTarget(latest TargetKind) {
	r.DoubtTarget = NoTarget
	if (r.InDoubt || r.Claimed()) && !r.State.Over() {
		r.DoubtTarget = latest
	}
}

// Unacknowledged reports whether the alarm's last ring is confirmed and waits for its acknowledgement.
func (r *RingRow) Unacknowledged() bool { return r.State == Ringing && r.RungAt != NoInstant }

// pausedPrefix begins the last_error of a paused alarm that has a reason.
const pausedPrefix = "paused"

// pauseReason returns the reason of the pause that the row has, "" if it has none.
func (r *RingRow) pauseReason() string {
	if strings.HasPrefix(r.LastError, pausedPrefix) {
		return r.LastError
	}
	return ""
}
