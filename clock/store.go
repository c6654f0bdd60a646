package clock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// WriteRequest is a group of ops that one transaction applies.
type WriteRequest struct {
	Now      Instant
	Ops      []Op          // no key occurs twice; delays are resolved
	LockWait time.Duration // time to wait for a row that another transaction locks; 0: the verdict is Locked at once

	LoadBytes      int // bytes of stored payloads that the transaction may load; the verdict of ops beyond it is Postpone; 0: no bound
	LargestPayload int // bytes of the largest stored payload, as far as known; for LoadBytes
}

// Store keeps alarms. Implementations are safe for concurrent use.
type Store interface {
	// Write applies the ops in one transaction and returns one decision for each op, in order. The verdict is Locked if
	// another transaction locks the op's row, or a two-phase claim has taken it; the decision has the row if it could
	// be read. The verdict is Postpone once the transaction has loaded LoadBytes. Ops with these two verdicts changed
	// nothing. At least one verdict is not Postpone. An error applies to all ops: nothing was written (ErrUnavailable),
	// or that is unknown (ErrUnconfirmed).
	Write(ctx context.Context, r WriteRequest) ([]Decision, error)
	// Get returns the alarm with its attempts, or ErrNotFound.
	Get(ctx context.Context, k Key) (*Alarm, error)
	// List passes alarms of one application to take, one by one, at most Limit. They are ordered by business id
	// (bytewise), or by due time if the query has a due range. List ends early if take returns false, and when it has
	// looked at a bounded number of alarms that the query does not select. next is the position behind the last alarm
	// that take has accepted, or that List has looked at; zero if no alarm follows. If take refuses the first alarm,
	// next is After. take must not block, because List holds a connection.
	List(ctx context.Context, q ListQuery, take func(*Alarm) bool) (next ListPosition, err error)
	// Keys returns the keys of the alarms with these ids, from the last committed state. The map lacks an id without an
	// alarm. The key of an id never changes. ids may have any length and order.
	Keys(ctx context.Context, ids []int64) (map[int64]Key, error)
}

// Directory says which applications a database knows, and finds alarms in all of them. Its work depends on the number
// of applications, not of alarms.
type Directory interface {
	// Applications returns the names of the applications that have alarms, finished ones included: at most limit names
	// after the given one (exclusive), in bytewise order.
	Applications(ctx context.Context, after string, limit int) ([]string, error)
	// Find returns the alarms of the keys that exist, without attempts, in the order of their keys. keys may have any
	// length and order, but no key twice.
	Find(ctx context.Context, keys []Key) ([]Alarm, error)
}

// StateCounter counts alarms by state.
type StateCounter interface {
	// CountStates counts the first alarms of the application, by business id, at most limit.
	CountStates(ctx context.Context, application string, limit int) (StateCounts, error)
	// AttentionApplications is like Directory.Applications, for the applications with expired, dead or paused alarms.
	AttentionApplications(ctx context.Context, after string, limit int) ([]string, error)
	// CountAttention counts the expired, dead and paused alarms of the application, at most limit in each state.
	CountAttention(ctx context.Context, application string, limit int) (StateCounts, error)
}

// StateCounts has the number of alarms in each state. A state without alarms may be missing.
type StateCounts map[State]int

// Total returns the number of alarms in all states.
func (c StateCounts) Total() (total int) {
	for _, n := range c {
		total += n
	}
	return total
}

// WriteProber tests whether a database accepts writes.
type WriteProber interface {
	// ProbeWrite commits a transaction that inserts an alarm and deletes it, so that no reader sees the alarm. Its
	// errors have the same kinds as the errors of Store.Write.
	ProbeWrite(ctx context.Context, now Instant) error
}

// ListQuery selects alarms of one application. Application and Limit are required.
//
// An alarm is due at its next_try_time. A paused one has none, so it counts as due at its ring_at, but only in a list
// of paused alarms alone.
type ListQuery struct {
	Application string
	States      []State      // states of the alarms; empty: all states
	DueAfter    Instant      // only due then or later; NoInstant: no bound
	DueBefore   Instant      // only due before this instant; NoInstant: no bound
	Prefix      string       // prefix of business_id, compared bytewise; may be empty
	Repeating   bool         // only repeating alarms, by business id; a store selects them by Prefix alone
	After       ListPosition // where the page before has ended; zero: the first page
	Limit       int          // 1 to MaxListLimit
}

// Admits reports whether the query selects an alarm of its application, apart from its position.
func (q *ListQuery) Admits(a *Alarm) bool {
	return (len(q.States) == 0 || slices.Contains(q.States, a.State)) && strings.HasPrefix(a.BusinessID, q.Prefix) &&
		(!q.HasDueRange() || q.admitsDue(a))
}

// HasDueRange reports whether the query selects by due time.
func (q *ListQuery) HasDueRange() bool { return q.DueAfter != NoInstant || q.DueBefore != NoInstant }

// admitsDue reports whether an alarm is due within the range.
func (q *ListQuery) admitsDue(a *Alarm) bool {
	due := a.NextTryTime
	if q.pausedOnly() {
		due = a.RingAt
	}
	return due != NoInstant && (q.DueAfter == NoInstant || due >= q.DueAfter) &&
		(q.DueBefore == NoInstant || due < q.DueBefore)
}

// pausedOnly reports whether the query selects paused alarms alone.
func (q *ListQuery) pausedOnly() bool {
	return len(q.States) > 0 && !slices.ContainsFunc(q.States, func(s State) bool { return s != Paused })
}

// ByDue reports whether the list is in the order of due times. The due index has no paused alarms.
func (q *ListQuery) ByDue() bool { return q.HasDueRange() && !q.pausedOnly() }

// Validate returns an ErrInvalid that names the first offending field, or nil.
func (q *ListQuery) Validate() error {
	if err := ValidateApplication(q.Application); err != nil {
		return err
	}
	if q.Limit < 1 || q.Limit > MaxListLimit {
		return invalid(CodeOutOfRange, "limit", fmt.Sprintf("limit must be from 1 to %d", MaxListLimit))
	}
	if len(q.Prefix) > MaxBusinessID || !utf8.ValidString(q.Prefix) ||
		strings.ContainsFunc(q.Prefix, unicode.IsControl) {
		return invalid(CodeInvalidBusinessID, "prefix", "prefix must be the beginning of a business_id")
	}
	if byID := q.After.BusinessID != ""; byID && ValidateBusinessID(q.After.BusinessID) != nil ||
		!q.After.IsZero() && byID == q.ByDue() {
		return invalidCursor()
	}
	return nil
}

// Limits of a list.
const (
	DefaultListLimit = 100
	MaxListLimit     = 1000
)

// TimeSource reads the database's clock.
type TimeSource interface {
	// Time returns the database's time in microseconds since the epoch, UTC.
	Time(ctx context.Context) (int64, error)
}
