package clock

import (
	"context"
	"time"
)

// WriteRequest is a group of ops to be applied in one transaction.
type WriteRequest struct {
	Now  Instant
	Ops  []Op          // no key twice; delays resolved
	Wait time.Duration // how long to wait for a row that is locked elsewhere; 0: answer Wait for it at once
}

// Store keeps alarms. Implementations are safe for concurrent use.
type Store interface {
	// Write applies the ops in one transaction and returns one decision an op, in order. The decision of an op whose row
	// is held by somebody else is Wait, with the row where it could be read; it changed nothing. An error says that
	// nothing was written (ErrUnavailable) or that this is unknown (ErrUnconfirmed), for all of them.
	Write(ctx context.Context, r WriteRequest) ([]Decision, error)
	// Get returns the alarm with its attempts, or ErrNotFound.
	Get(ctx context.Context, k Key) (*Alarm, error)
	// List returns alarms of one application ordered by business id (bytewise), at most Limit.
	List(ctx context.Context, q ListQuery) ([]Alarm, error)
	// Keys returns the keys of the alarms with these ids, as last committed; an id that is not there is missing. The
	// key of an id never changes. ids may come in any number and order.
	Keys(ctx context.Context, ids []int64) (map[int64]Key, error)
}

// ListQuery selects alarms of one application. Empty values do not restrict, but for Application and Limit; NoInstant is
// the empty bound, for 0 is an instant.
type ListQuery struct {
	Application string
	States      []State // any of them
	DueAfter    Instant // next_try_time >= DueAfter; NoInstant: no bound
	DueBefore   Instant // next_try_time < DueBefore; NoInstant: no bound
	Prefix      string  // of business_id, bytewise
	After       string  // business_id > After: where the page before ended
	Limit       int     // 1 to MaxListLimit
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
