package clock

// QuotaKeeper knows what applications use of their quotas.
type QuotaKeeper interface {
	// Admit judges a set or a cancel of an application with quotas, before it is queued. It must not block. An
	// ErrLimited refuses the op.
	Admit(op *Op, q *Quotas) (Admission, error)
}

// Admission is the judgement of a QuotaKeeper on an op.
type Admission struct {
	Room  Room            // of a set; nil: it may add a pending alarm
	Ended func(*Decision) // takes the decision on the op, once; may be nil
}
