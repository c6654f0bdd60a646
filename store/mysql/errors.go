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

// Numbers of the server errors that the store treats specially.
const (
	errNull               = 1048
	errDuplicateKey       = 1062
	errNoSuchTable        = 1146
	errLockTimeout        = 1205 // the statement is rolled back, the transaction stays open
	errLockNoWait         = 3572 // NOWAIT met a locked row; MariaDB says errLockTimeout
	errDeadlock           = 1213 // the transaction is rolled back; also a conflict at COMMIT in a Galera cluster
	errRolledBackByPlugin = 3101 // a conflict at COMMIT in group replication
)

// mapError wraps err with the failed operation and gives it a kind of package clock.
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

// passing are the server errors that pass without an operator: the server stops, is full of connections, ended the session or the
// statement, waited for a lock, is a replica, or does not know the user or the database yet.
var passing = []uint16{
	1040, 1203, 1053, 1927, 1317, 3169, errLockTimeout, errDeadlock, errRolledBackByPlugin, 1290, 1792, 1836, 1044, 1045, 1049,
}

// migrationError maps the error of a migration. A refusal that would only come again is not mapped to ErrUnavailable.
func (s *Store) migrationError(err error) error {
	if m, refused := errors.AsType[*mysql.MySQLError](err); refused && !slices.Contains(passing, m.Number) ||
		errors.Is(err, errUnknownStatement) || errors.Is(err, errForeignTable) {
		return fmt.Errorf("mysql: migrate: %w", err)
	}
	return s.mapError("migrate", err)
}

// mapError maps err as the function mapError does, and counts it.
func (s *Store) mapError(doing string, err error) error {
	return s.metrics.CountError(mapError(doing, err))
}

// replayReason names a definite rollback that may succeed when repeated; "" for every other error. A lock timeout rolls back only the
// statement; the caller has then rolled back the transaction.
func replayReason(err error) string {
	switch {
	case errors.Is(err, clock.ErrUnconfirmed):
		return ""
	case hasNumber(err, errDeadlock):
		return store.ReplayDeadlock
	case hasNumber(err, errLockTimeout):
		return store.ReplayLockTimeout
	case hasNumber(err, errRolledBackByPlugin):
		return store.ReplaySerialization
	}
	return ""
}

// definite reports whether a COMMIT that failed with err certainly rolled back.
func definite(err error) bool { return hasNumber(err, errDeadlock, errRolledBackByPlugin) }

// keyTaken reports whether an INSERT met a key that exists or is locked.
func keyTaken(err error) bool { return hasNumber(err, errDuplicateKey, errLockTimeout) }

// hasNumber reports whether err is a server error whose number is listed.
func hasNumber(err error, numbers ...uint16) bool {
	m, is := errors.AsType[*mysql.MySQLError](err)
	return is && slices.Contains(numbers, m.Number)
}
