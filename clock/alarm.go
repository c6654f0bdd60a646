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
	Past       PastGenerations // generations that changes have replaced

	Attempts []Attempt // newest first, at most MaxAttempts; nil unless Store.Get read the alarm
}

// Numbers of occurrences in responses.
const (
	ShownOccurrences   = 3       // next occurrences that a repeating alarm shows
	ShownCounted       = 1000    // passed occurrences that are counted for them
	DefaultOccurrences = 10      // length of a list of occurrences if the request does not say it
	MaxOccurrences     = 1000    // length of the longest list of occurrences
	CountedOccurrences = 100_000 // passed occurrences that are counted for a list of occurrences
)

// Repetition returns the rule by which the alarm repeats; zero if it rings once.
func (a *Alarm) Repetition() Repetition { return RepetitionOf(a.Repeat, a.Key, a.Generation) }

// latestRing returns the id of the last confirmed ring.
func (a *Alarm) latestRing() RingID {
	return RingID{AlarmID: a.ID, Generation: a.Generation, RingNo: a.RingNo}
}

// nextRing returns the id of the ring in flight or in doubt, or of the next ring.
func (a *Alarm) nextRing() RingID {
	next := a.latestRing()
	next.RingNo++
	return next
}

// NextRingAt returns the time of the current occurrence's ring. Of an alarm that rings once it is RingAt.
func (a *Alarm) NextRingAt() Instant {
	if !a.Progress.Repeats() {
		return a.RingAt
	}
	return a.Repetition().RingAt(a.Progress.Current)
}

// Backfill returns how far the alarm's backfill has come. It has ended with the alarm.
func (a *Alarm) Backfill() BackfillProgress {
	if a.State.Over() {
		return a.Progress.Backfill.ended()
	}
	return a.Progress.Backfill
}

// Latest returns the last instant at which the alarm, or its current occurrence, may ring; NoInstant: however late.
func (a *Alarm) Latest() Instant {
	if !a.Progress.Repeats() {
		return a.LatestRingAt
	}
	return a.Repetition().Latest(&a.Progress)
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
