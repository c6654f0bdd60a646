package clock

// CommitListener learns of committed changes, so that an alarm that is due soon rings on time. It gets all decisions of
// a transaction, including decisions that write nothing. It must not block, and must not change or keep the slice.
type CommitListener interface {
	Committed(decisions []Decision)
}
