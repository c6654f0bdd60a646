package clock

// Alarm is one row: the content that the application set, and the alarm's state.
type Alarm struct {
	ID int64 // never used twice; 0 until stored
	Key
	Shard      int
	State      State
	Generation int64 // 1 at creation, plus 1 for every change by a set
	Content
	Traceparent string

	NextTryTime Instant // next due time, never before the write that stored it; NoInstant for finished and paused alarms
	RingNo      int     // confirmed rings of this generation
	RetryTimes  int     // failed tries of this generation
	LastError   string
	Unreadable  string // why the stored row cannot be read (the same text as LastError); empty for readable rows
	InDoubt     bool   // a try was published, and its outcome is unknown
	ClaimID     string // claim of the last confirmed ring

	Answer     AnswerKind // last accepted answer of this generation
	AnsweredBy string
	AnsweredAt Instant // NoInstant before the first answer

	RungAt     Instant
	CreateTime Instant
	UpdateTime Instant
	FinishedAt Instant

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

// Claimed reports whether a two-phase claim has taken the alarm: its ring is in flight, and the outcome is not known yet.
func (a *Alarm) Claimed() bool { return a.State == Ringing && a.RungAt == NoInstant }
