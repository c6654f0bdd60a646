package store

// SkippedIDs is how many ids of alarms a database leaves out after it was restored from a backup. Alarms that were set
// between the backup and the loss of the database had ids after its last one, and a message id must never name two
// rings. At 20,000 sets a second these ids last for a year and a half.
const SkippedIDs = 1_000_000_000_000

// ReasonRestored is the last_error of an alarm that was due when its database was restored.
const ReasonRestored = "restored from a backup: a ring after the backup may have arrived"

// RestoredCounts counts alarms that were marked in a restored database.
type RestoredCounts struct {
	InDoubt int64 // due alarms, marked as in doubt
	Raised  int64 // alarms with a higher generation
}

// Plus returns the sums.
func (c RestoredCounts) Plus(d RestoredCounts) RestoredCounts {
	return RestoredCounts{InDoubt: c.InDoubt + d.InDoubt, Raised: c.Raised + d.Raised}
}
