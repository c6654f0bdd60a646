package mysql

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Numbers of the server's errors that are told apart.
const (
	errDuplicateKey       = 1062
	errNoSuchTable        = 1146
	errLockTimeout        = 1205 // the statement is rolled back, the transaction stands
	errDeadlock           = 1213 // the transaction is rolled back; also a conflict at COMMIT in a Galera cluster
	errRolledBackByPlugin = 3101 // a conflict at COMMIT in group replication
)

// mapError returns err as a kind of package clock, with what was being done.
func mapError(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, mapped := errors.AsType[*clock.Error](err); mapped {
		return err
	}
	err = fmt.Errorf("mysql: %s: %w", doing, err)
	if errors.Is(err, store.ErrReadOnly) {
		return &clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second, Cause: err,
			Detail: "the database is read-only: the URL leads to a replica, or the primary was changed",
		}
	}
	return clock.Unavailable(err)
}

// mapError is mapError, and counts the error.
func (s *Store) mapError(doing string, err error) error {
	return s.metrics.Failed(mapError(doing, err))
}

// replayReason names a definite rollback that a repetition may heal; "" for all else. A lock timeout rolls back a statement
// only; the transaction was then rolled back by its caller.
func replayReason(err error) string {
	switch {
	case errors.Is(err, clock.ErrUnconfirmed):
		return ""
	case isNumber(err, errDeadlock):
		return store.ReplayDeadlock
	case isNumber(err, errLockTimeout):
		return store.ReplayLockTimeout
	case isNumber(err, errRolledBackByPlugin):
		return store.ReplaySerialization
	}
	return ""
}

// definite reports whether a COMMIT that ended in err has certainly not committed.
func definite(err error) bool { return isNumber(err, errDeadlock, errRolledBackByPlugin) }

// keyTaken reports whether an INSERT met a key that exists or is locked.
func keyTaken(err error) bool { return isNumber(err, errDuplicateKey, errLockTimeout) }

// isNumber reports whether err is the server's, with one of the numbers.
func isNumber(err error, numbers ...uint16) bool {
	m, is := errors.AsType[*mysql.MySQLError](err)
	return is && slices.Contains(numbers, m.Number)
}
