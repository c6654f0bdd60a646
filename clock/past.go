package clock

import (
	"encoding/json"
	"strconv"
	"strings"
)

const (
	// keptGenerations is how many replaced generations of an alarm are kept, at most.
	keptGenerations = 8
	// MaxPastGenerations is the length of the longest PastGenerations, in bytes.
	MaxPastGenerations = 1000
	// maxPastReason is how many bytes of a reason a replaced generation keeps, at most.
	maxPastReason = 100
)

// RaisedGenerations is how much higher the generations of a restored database are: more than an application changes an
// alarm between a backup and the loss of the database.
const RaisedGenerations = 1_000_000

// PastGenerations has the newest replaced generations of an alarm, the oldest first, as the database keeps them: JSON
// objects, one a line; empty for none. They are read only for the events of an alarm, so the row carries them as a text.
// There are at most keptGenerations, of at most MaxPastGenerations: older ones make room.
type PastGenerations string

// PastGeneration is what a set, a shift, a trigger, a kick or a discard overwrote in the row of an alarm.
type PastGeneration struct {
	Generation int64
	RingAt     Instant // target_ring_at
	State      State   // last state of the generation
	RingNo     int     // of its last confirmed ring; 0: not known
	RungAt     Instant // of its last confirmed ring; NoInstant: it never rang
	FinishedAt Instant // NoInstant: it was not over
	Reason     string  // why it expired or died, perhaps cut; may be empty
	Answer     AnswerKind
	AnsweredBy string
	AnsweredAt Instant // NoInstant: no answer
	ReplacedAt Instant // when the next generation began, or a kick or a discard changed the end of this one
}

// storedGeneration is the JSON that PastGeneration.encode writes. Times are epoch milliseconds, 0 for NoInstant.
type storedGeneration struct {
	Generation int64  `json:"n"`
	RingAt     int64  `json:"at"`
	State      int8   `json:"state"`
	RingNo     int    `json:"ring"`
	RungAt     int64  `json:"rung"`
	FinishedAt int64  `json:"end"`
	Reason     string `json:"why"`
	Answer     int8   `json:"answer"`
	AnsweredBy string `json:"by"`
	AnsweredAt int64  `json:"answered"`
	ReplacedAt int64  `json:"until"`
}

// generation returns what the row tells of the alarm's generation. ReplacedAt is NoInstant.
func (a *Alarm) generation() PastGeneration {
	g := PastGeneration{
		Generation: a.Generation, RingAt: a.RingAt, State: a.State, RingNo: a.RingNo, RungAt: a.RungAt,
		FinishedAt: a.FinishedAt, Answer: a.Answer, AnsweredBy: a.AnsweredBy, AnsweredAt: a.AnsweredAt, ReplacedAt: NoInstant,
	}
	if a.State == Expired || a.State == Dead {
		g.Reason = a.LastError
	}
	failed := a.State == Dead || a.State == Expired // the occurrence that failed has taken a number, too
	if a.Progress.Repeats() && (failed || a.RingNo == a.Progress.RingsBefore) {
		g.RingNo = 0 // occurrences that did not ring have taken numbers since
	}
	return g
}

// with adds the generation of a row that is replaced at now. It does not read the stored ones: sets that replace alarms
// are frequent.
func (p PastGenerations) with(row *Alarm, now Instant) PastGenerations {
	last := row.generation()
	last.ReplacedAt = now
	line := last.encode()
	for _, text := range []*string{&last.Reason, &last.AnsweredBy} {
		if len(line) > MaxPastGenerations { // JSON escapes control characters with six others
			*text = ""
			line = last.encode()
		}
	}
	earlier := string(p)
	for earlier != "" && (strings.Count(earlier, "\n") > keptGenerations-2 || len(earlier)+len(line) >= MaxPastGenerations) {
		_, earlier, _ = strings.Cut(earlier, "\n")
	}
	if earlier == "" {
		return PastGenerations(line)
	}
	return PastGenerations(earlier + "\n" + line)
}

// encode returns the generation as JSON, without members that are 0 or empty.
func (g *PastGeneration) encode() string {
	b := make([]byte, 0, 120)
	member := func(name string, n int64) {
		if n != 0 {
			b = strconv.AppendInt(append(append(append(b, `,"`...), name...), `":`...), n, 10)
		}
	}
	text := func(name, text string) {
		if text != "" {
			b = append(append(append(append(b, `,"`...), name...), `":`...), quoted(text)...)
		}
	}
	b = strconv.AppendInt(append(b, `{"n":`...), g.Generation, 10)
	member("at", int64(g.RingAt))
	member("state", int64(g.State))
	member("ring", int64(g.RingNo))
	member("rung", zeroIfNone(g.RungAt))
	member("end", zeroIfNone(g.FinishedAt))
	text("why", cut(g.Reason, maxPastReason))
	member("answer", int64(g.Answer))
	text("by", g.AnsweredBy)
	member("answered", zeroIfNone(g.AnsweredAt))
	member("until", int64(g.ReplacedAt))
	return string(append(b, '}'))
}

// quoted returns a text as JSON.
func quoted(text string) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil { // each string has a JSON form
		panic("clock: encode a text: " + err.Error())
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// valid reports whether the generation may be true.
func (g *PastGeneration) valid() bool {
	for _, i := range []Instant{g.RungAt, g.FinishedAt, g.AnsweredAt} {
		if i != NoInstant && !i.Valid() {
			return false
		}
	}
	return g.Generation > 0 && g.RingAt.Valid() && g.ReplacedAt.Valid() && g.State.Known()
}

// List returns the generations. One that cannot be read is left out: it tells the past, and no decision depends on it.
func (p PastGenerations) List() (all []PastGeneration) {
	for line := range strings.Lines(string(p)) {
		var s storedGeneration
		if json.Unmarshal([]byte(line), &s) != nil {
			continue
		}
		g := PastGeneration{
			Generation: s.Generation, RingAt: Instant(s.RingAt), State: State(s.State), RingNo: s.RingNo,
			RungAt: instantOrNone(s.RungAt), FinishedAt: instantOrNone(s.FinishedAt), Reason: s.Reason,
			Answer: AnswerKind(s.Answer), AnsweredBy: s.AnsweredBy, AnsweredAt: instantOrNone(s.AnsweredAt),
			ReplacedAt: Instant(s.ReplacedAt),
		}
		if g.valid() {
			all = append(all, g)
		}
	}
	return all
}

// zeroIfNone returns 0 for NoInstant.
func zeroIfNone(i Instant) int64 { return int64(max(i, 0)) }
