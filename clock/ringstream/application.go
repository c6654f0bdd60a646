package ringstream

import (
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// application is the part of a Journal for one application. Journal.mu guards it.
type application struct {
	name    string
	entries []entry     // oldest first
	open    int         // open streams
	expiry  *time.Timer // forgets expired sessions; nil: there is no ended session
}

// entry is a ring of a session, or the begin of a stream.
type entry struct {
	session *session     // nil: it need not be remembered
	ring    clock.RingID // zero: the begin of a stream
	claimID string       // claim of the ring
	missing bool         // the client has resumed without the ring, and it is not yet certain that the ring rings again
}

func (e *entry) isBegin() bool { return e.ring == clock.RingID{} }

// find returns the session that a client resumes with an id, and the index of the last entry that the client has.
// Copies of a ring may be in several sessions, so find prefers an ended session to an open stream. Within a session the
// first entry counts: a copy is better than a lost ring.
func (a *application) find(lastID string) (s *session, last int) {
	if lastID == "" || len(lastID) > maxLastID {
		return nil, -1
	}
	ring, err := clock.ParseRingID(lastID)
	return a.findEntry(func(e *entry) bool {
		if e.isBegin() {
			return e.session.position == lastID || e.session.after == lastID
		}
		return err == nil && e.ring == ring
	})
}

// findEntry returns the first entry that matches, and its session: a session that has ended if there is one.
func (a *application) findEntry(matches func(*entry) bool) (s *session, first int) {
	first = -1
	for i := range a.entries {
		e := &a.entries[i]
		if e.session == nil || e.missing || !matches(e) || e.session.expired() {
			continue
		}
		if e.session.stream == nil {
			return e.session, i
		}
		if first < 0 {
			first = i
		}
	}
	if first < 0 {
		return nil, -1
	}
	return a.entries[first].session, first
}

// takeMissing returns the rings of the session after its entry last, and earlier rings that are still missing. It marks
// all of them as missing, and forgets the session's other entries.
func (a *application) takeMissing(s *session, last int) []entry {
	var missing []entry
	for i := range a.entries {
		e := &a.entries[i]
		switch {
		case e.session != s:
		case e.isBegin(), i <= last && !e.missing:
			e.session = nil
		default:
			e.missing = true
			missing = append(missing, *e)
		}
	}
	return missing
}

// forgetMissing forgets these entries.
func (a *application) forgetMissing(done map[entry]bool) {
	for i := range a.entries {
		if e := &a.entries[i]; e.missing && done[*e] {
			*e = entry{}
		}
	}
}

// compact removes the entries that need not be remembered.
func (a *application) compact() {
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return e.session == nil || e.session.expired() })
	a.fit()
}

// forgetOldest removes the oldest eighth of the entries, at least one.
func (a *application) forgetOldest() {
	a.entries = slices.Delete(a.entries, 0, (len(a.entries)+7)/8)
	a.fit()
}

// fit gives back memory that the entries do not need.
func (a *application) fit() {
	if cap(a.entries) > 4*len(a.entries)+64 {
		a.entries = slices.Clone(a.entries)
	}
}

// untilExpiry returns the time until the next session expires, 0 if all have an open stream.
func (a *application) untilExpiry() time.Duration {
	var left time.Duration
	for i := range a.entries {
		s := a.entries[i].session
		if s == nil || s.stream != nil {
			continue
		}
		if next := resumeTime - time.Since(s.ended); left == 0 || next < left {
			left = max(next, time.Millisecond)
		}
	}
	return left
}
