package clock

// JobRecord is a job as a store keeps it. A store does not look into the document.
type JobRecord struct {
	ID         string // 26 characters, unique
	CreatedAt  Instant
	EndedAt    Instant // NoInstant: the job has not ended
	Owner      string  // incarnation of the node that works on it; empty: none
	LeaseUntil Instant // end of the owner's lease, by the database's clock
	Revision   int64   // one more with each change
	Document   string
}
