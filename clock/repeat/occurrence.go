package repeat

import (
	"crypto/sha256"
	"encoding/binary"
)

// Occurrence is one occurrence of a rule.
type Occurrence struct {
	At     int64 // epoch ms, without jitter
	Number int64 // 1 for the first occurrence of a generation; also counts missed, skipped and failed occurrences
}

// First returns the first occurrence after an instant.
func (r Rule) First(after int64) (Occurrence, bool) {
	at, ok := r.Next(after)
	return Occurrence{At: at, Number: 1}, ok
}

// Following returns the occurrence after o. It returns false if o is the last one.
func (r Rule) Following(o Occurrence) (Occurrence, bool) {
	if r.spec.Times != 0 && o.Number >= r.spec.Times {
		return Occurrence{}, false
	}
	at, ok := r.Next(o.At)
	return Occurrence{At: at, Number: o.Number + 1}, ok
}

// Before returns the time of the occurrence before o in epoch ms. It returns 0 if o is the first one of its generation,
// or of its rule.
func (r Rule) Before(o Occurrence) int64 {
	if o.Number <= 1 {
		return 0
	}
	return r.Previous(o.At)
}

// Between returns the first occurrence between two instants, inclusive, in epoch ms, and the number of occurrences
// there, without regard to Times. It counts no further than most+1.
func (r Rule) Between(from, until int64, most int) (first int64, count int) {
	first, ok := r.Next(from - 1)
	for at := first; ok && at <= until && count <= most; at, ok = r.Next(at) {
		count++
	}
	return first, count
}

// Previous returns the occurrence before one at an instant, in epoch ms; 0: there is none. For a cron expression it goes back in
// growing steps until an earlier occurrence follows, and then halves the rest.
func (r Rule) Previous(occurrence int64) int64 {
	if r.cron == nil {
		if first, _ := r.Next(0); occurrence <= first {
			return 0
		}
		return occurrence - r.spec.Every
	}
	step := int64(1000)
	for step < occurrence {
		if at, ok := r.Next(occurrence - step - 1); ok && at < occurrence {
			break
		}
		step *= 2
	}
	early, late := max(occurrence-step-1, 0), occurrence-1 // Next(early) is before the occurrence, Next(late) is it
	before, ok := r.Next(early)
	if !ok || before >= occurrence {
		return 0
	}
	for early < late-1 {
		middle := early + (late-early)/2
		if at, ok := r.Next(middle); ok && at < occurrence {
			early, before = at, at
		} else {
			late = middle
		}
	}
	return before
}

// Occurrences returns o and the occurrences that follow, at most count together, in order.
func (r Rule) Occurrences(o Occurrence, count int) []Occurrence {
	var list []Occurrence
	for ok := true; ok && len(list) < count; o, ok = r.Following(o) {
		list = append(list, o)
	}
	return list
}

// Upcoming returns the occurrences from o on whose rings are after now, at most count. If more than counted occurrences
// of a cron expression have passed since o, the numbers are 0; a rule with Times then has none.
func (r Rule) Upcoming(alarm Ringer, o Occurrence, now int64, count, counted int) []Occurrence {
	if o.At <= now {
		o = r.jump(o, now, 0)
	}
	for range counted {
		if o.At > now || r.RingAt(alarm, o) > now {
			return r.Occurrences(o, count)
		}
		next, ok := r.Following(o)
		if !ok {
			return nil
		}
		o = next
	}
	at, ok := r.Next(now)
	if !ok || r.spec.Times != 0 {
		return nil
	}
	if before := r.Previous(at); r.RingAt(alarm, Occurrence{At: before}) > now { // by its jitter
		at = before
	}
	list := r.Occurrences(Occurrence{At: at}, count)
	for i := range list {
		list[i].Number = 0
	}
	return list
}

// Ringer is the alarm that a jitter is drawn for. It has no id of a database, because the first ring's time is known
// before the row is inserted.
type Ringer struct {
	Application, BusinessID string
	Generation              int64
}

// RingAt returns the instant of an occurrence's ring in epoch ms: the occurrence plus its jitter. The jitter is a hash
// of the alarm's key, its generation and the occurrence. It ends before the next occurrence. A ring of the last
// occurrence may be after Until.
func (r Rule) RingAt(alarm Ringer, o Occurrence) int64 {
	longest := r.spec.Jitter
	if longest == 0 {
		return o.At
	}
	if next, ok := r.Following(o); ok {
		longest = min(longest, next.At-o.At-1)
	}
	seed := make([]byte, 0, 256)
	seed = append(append(append(seed, alarm.Application...), 0), alarm.BusinessID...) // no application has a byte 0
	seed = binary.BigEndian.AppendUint64(seed, uint64(alarm.Generation))
	seed = binary.BigEndian.AppendUint64(seed, uint64(o.At))
	hash := sha256.Sum256(seed)
	return o.At + int64(binary.BigEndian.Uint64(hash[:])%uint64(longest+1))
}
