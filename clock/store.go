package clock

import (
	"context"
	"fmt"
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
	// Write applies the ops in one transaction and returns one decision for each op, in order. The verdict is Locked if another
	// transaction locks the op's row, or a two-phase claim has taken it; the decision has the row if it could be read. The verdict
	// is Postpone once the transaction has loaded LoadBytes. Ops with these two verdicts changed nothing. At least one verdict is
	// not Postpone. An error applies to all ops: nothing was written (ErrUnavailable), or that is unknown (ErrUnconfirmed).
	Write(ctx context.Context, r WriteRequest) ([]Decision, error)
	// Get returns the alarm with its attempts, or ErrNotFound.
	Get(ctx context.Context, k Key) (*Alarm, error)
	// List passes alarms of one application to take, one by one, ordered by business id (bytewise), at most Limit. It ends early
	// if take returns false. take must not block, because List holds a connection.
	List(ctx context.Context, q ListQuery, take func(*Alarm) bool) error
	// Keys returns the keys of the alarms with these ids, from the last committed state. The map lacks an id without an alarm. The
	// key of an id never changes. ids may have any length and order.
	Keys(ctx context.Context, ids []int64) (map[int64]Key, error)
}

// WriteProber tests whether a database accepts writes.
type WriteProber interface {
	// ProbeWrite commits a transaction that inserts an alarm and deletes it, so that no reader sees the alarm. Its errors have the
	// same kinds as the errors of Store.Write.
	ProbeWrite(ctx context.Context, now Instant) error
}

// ListQuery selects alarms of one application. Application and Limit are required.
type ListQuery struct {
	Application string
	States      []State // states of the alarms; empty: all states
	DueAfter    Instant // only next_try_time >= DueAfter; NoInstant: no bound
	DueBefore   Instant // only next_try_time < DueBefore; NoInstant: no bound
	Prefix      string  // prefix of business_id, compared bytewise; may be empty
	After       string  // only business_id > After: the end of the page before; may be empty
	Limit       int     // 1 to MaxListLimit
}

// Validate returns an ErrInvalid that names the first offending field, or nil.
func (q *ListQuery) Validate() error {
	if err := ValidateApplication(q.Application); err != nil {
		return err
	}
	if q.Limit < 1 || q.Limit > MaxListLimit {
		return invalid(CodeOutOfRange, "limit", fmt.Sprintf("limit must be from 1 to %d", MaxListLimit))
	}
	if len(q.Prefix) > MaxBusinessID || !utf8.ValidString(q.Prefix) || strings.ContainsFunc(q.Prefix, unicode.IsControl) {
		return invalid(CodeInvalidBusinessID, "prefix", "prefix must be the beginning of a business_id")
	}
	if q.After != "" && ValidateBusinessID(q.After) != nil {
		return invalid(CodeInvalidValue, "cursor", "cursor must be the unchanged cursor of a response")
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
