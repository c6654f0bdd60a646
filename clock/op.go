package clock

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Op is one request to change an alarm. Exactly one pointer is not nil.
type Op struct {
	Set     *Set
	Cancel  *Cancel
	Answer  *Answer
	Resend  *Resend
	Kick    *Kick
	Discard *Discard
	Pause   *Pause
	Resume  *Resume
	Trigger *Trigger

	Backfill    *Backfill
	EndBackfill *EndBackfill
	// Recompute computes the times of an alarm again, by the time-zone data of this process.
	Recompute *Recompute
	Shift     *Shift
	// Actor is the origin of the op in the audit. Nil: the audit does not record it.
	Actor          *Actor
	Note           string // the reason that the Actor gives; the audit and a paused alarm have it; at most MaxNote bytes
	Paced          bool   // its source is slowed down otherwise, so the quota of sets a second does not count it
	WithoutPayload bool   // the caller does not read the payload of the decision's alarm, so Pending drops it
}

// Key returns the key of the op's alarm.
func (o Op) Key() Key {
	switch {
	case o.Set != nil:
		return o.Set.Key
	case o.Cancel != nil:
		return o.Cancel.Key
	case o.Answer != nil:
		return o.Answer.Key
	case o.Resend != nil:
		return o.Resend.Key
	case o.Kick != nil:
		return o.Kick.Key
	case o.Discard != nil:
		return o.Discard.Key
	case o.Pause != nil:
		return o.Pause.Key
	case o.Resume != nil:
		return o.Resume.Key
	case o.Trigger != nil:
		return o.Trigger.Key
	case o.Backfill != nil:
		return o.Backfill.Key
	case o.EndBackfill != nil:
		return o.EndBackfill.Key
	case o.Shift != nil:
		return o.Shift.Key
	default:
		return o.Recompute.Key
	}
}

// Name returns the op's name for metrics: set, cancel, resend, kick, discard, pause, resume, trigger, backfill,
// end_backfill, shift, recompute, or the name of the answer's kind.
func (o Op) Name() string {
	switch {
	case o.Set != nil:
		return "set"
	case o.Cancel != nil:
		return "cancel"
	case o.Answer != nil:
		return o.Answer.Kind.String()
	case o.Resend != nil:
		return "resend"
	case o.Kick != nil:
		return "kick"
	case o.Discard != nil:
		return "discard"
	case o.Pause != nil:
		return "pause"
	case o.Resume != nil:
		return "resume"
	case o.Trigger != nil:
		return "trigger"
	case o.Backfill != nil:
		return "backfill"
	case o.EndBackfill != nil:
		return "end_backfill"
	case o.Shift != nil:
		return "shift"
	default:
		return "recompute"
	}
}

// Size returns the op's approximate size in memory, in bytes.
func (o Op) Size() int {
	const fixed = 512
	if o.Set != nil {
		return fixed + len(o.Set.Payload)
	}
	return fixed
}

// MaxNote is the most bytes of an Op's Note.
const MaxNote = 300

// CheckNote refuses a note that is too long, or that no column takes.
func CheckNote(note string) error {
	switch {
	case len(note) > MaxNote:
		return invalid(CodeOutOfRange, "note", fmt.Sprintf("note must be at most %d bytes, not %d", MaxNote, len(note)))
	case strings.ContainsRune(note, 0) || !utf8.ValidString(note):
		return invalid(CodeInvalidValue, "note", "note must be text in UTF-8, without NUL")
	}
	return nil
}
