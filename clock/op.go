package clock

// Op is one request to change an alarm. Exactly one pointer is not nil.
type Op struct {
	Set     *Set
	Cancel  *Cancel
	Answer  *Answer
	Kick    *Kick
	Discard *Discard
	Brief   bool // the caller does not read the payload of the decision's alarm, so Pending drops it
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
	case o.Kick != nil:
		return o.Kick.Key
	default:
		return o.Discard.Key
	}
}

// Name returns the op's name for metrics: set, cancel, kick, discard, or the name of the answer's kind.
func (o Op) Name() string {
	switch {
	case o.Set != nil:
		return "set"
	case o.Cancel != nil:
		return "cancel"
	case o.Answer != nil:
		return o.Answer.Kind.String()
	case o.Kick != nil:
		return "kick"
	default:
		return "discard"
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
