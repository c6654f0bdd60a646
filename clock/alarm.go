package clock

// Alarm is one row: the content that the application set, and the alarm's state.
type Alarm struct {
	ID int64 // never used twice; 0 until stored
	Key
	Shard      int
	Generation int64 // 1 at creation, plus 1 for every change by a set
	Content
	Traceparent string
	RingRow
	Unreadable string // why the stored row cannot be read (the same text as LastError); empty for readable rows

	Answer     AnswerKind // last accepted answer of this generation
	AnsweredBy string
	AnsweredAt Instant // NoInstant before the first answer

	CreateTime Instant

	Attempts []Attempt // newest first, at most MaxAttempts; nil unless Store.Get read the alarm
}

// Same is Content.Same. An alarm whose row cannot be read is the same as no content.
func (a *Alarm) Same(other *Content) bool { return a.Unreadable == "" && a.Content.Same(other) }

// MaxAttempts is how many attempts of an alarm are kept, at most.
const MaxAttempts = 20

// Attempt is one try whose ring was not confirmed, or one ring that was released, buried or not acknowledged.
type Attempt struct {
	Generation int64
	RingNo     int // the ring's number
	ClaimID    string
	Time       Instant
	Outcome    OutcomeKind
	Error      string
	By         string // sender of the answer, for Released and Buried
}
