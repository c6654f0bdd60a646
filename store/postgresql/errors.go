package postgresql

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// SQLSTATE codes that the store treats specially.
const (
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	codeLockNotAvailable = "55P03" // lock_timeout
	codeReadOnly         = "25006"
	codeIdleTransaction  = "25P03" // the server ended a session idle in its transaction
	codeNotSupported     = "0A000" // a migration changed the table of a prepared statement; pgx prepares it again
	codeUndefinedTable   = "42P01"
	codeKeyExists        = "23505"
)

// severityError is the severity of an error that ended the transaction, but not the session.
const severityError = "ERROR"

var (
	// errRolledBack reports a COMMIT to which the server replied ROLLBACK.
	errRolledBack = errors.New("the transaction had failed and was rolled back")
	// errClosed reports a COMMIT that was not sent.
	errClosed = errors.New("the connection was closed before COMMIT")
)

// mapError wraps err with the failed operation, gives it a kind of package clock, and counts it.
func (s *Store) mapError(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, mapped := errors.AsType[*clock.Error](err); mapped {
		return s.metrics.CountError(err)
	}
	if hasCode(err, codeReadOnly) {
		for _, p := range s.pools() {
			p.Reset() // connections to a former primary stay read-only
		}
		err = fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	err = fmt.Errorf("postgresql: %s: %w", doing, err)
	if errors.Is(err, store.ErrReadOnly) {
		return s.metrics.CountError(&clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second, Cause: err,
			Detail: "the database is read-only: the URL leads to a standby, or the primary was changed",
		})
	}
	return s.metrics.CountError(clock.Unavailable(err))
}

// passing are the classes of server errors that may pass without an operator: a broken connection, a user or database that is not known yet,
// a replica, a rollback, too few resources, a lock, an operator's intervention, a fault outside PostgreSQL.
var passing = []string{"08", "28", "3D", "25", "40", "53", "55", "57", "58"}

// migrationError maps the error of a migration. A refusal that would only come again is not mapped to ErrUnavailable.
func (s *Store) migrationError(err error) error {
	if p, refused := errors.AsType[*pgconn.PgError](err); refused && !slices.Contains(passing, p.Code[:2]) {
		return fmt.Errorf("postgresql: migrate: %w", err)
	}
	return s.mapError("migrate", err)
}

// replayReason names a definite rollback that may succeed when repeated: a deadlock, a serialization failure, a key that was locked for
// lockWait or inserted meanwhile, or a statement whose table a migration changed. It returns "" for every other error.
func replayReason(err error) string {
	switch {
	case hasCode(err, codeSerialization):
		return store.ReplaySerialization
	case hasCode(err, codeDeadlock):
		return store.ReplayDeadlock
	case hasCode(err, codeLockNotAvailable):
		return store.ReplayLockTimeout
	case hasCode(err, codeKeyExists):
		return store.ReplayKeyExists
	case hasCode(err, codeNotSupported):
		return store.ReplayMigrated
	}
	return ""
}

// commitError maps the error of a COMMIT that was sent, or of a pipeline that ends with it. The outcome is unconfirmed, unless the server
// said that it rolled back. pgconn.SafeToRetry is of no use here: in pgx v5.12 it also reports a connection that is lost during COMMIT as
// safe ("conn closed").
func commitError(err error) error {
	if err == nil || errors.Is(err, errRolledBack) {
		return err
	}
	p, answered := errors.AsType[*pgconn.PgError](err)
	if answered && (p.SeverityUnlocalized == severityError || p.Code == codeIdleTransaction) {
		return err
	}
	return clock.Unconfirmed(fmt.Errorf("postgresql: commit: %w", err))
}

// hasCode reports whether err is a server error whose code is listed.
func hasCode(err error, codes ...string) bool {
	p, is := errors.AsType[*pgconn.PgError](err)
	if !is {
		return false
	}
	for _, c := range codes {
		if p.Code == c {
			return true
		}
	}
	return false
}

func unknownAlarm(k clock.Key) error {
	return &clock.Error{
		Kind: clock.ErrNotFound, Code: clock.CodeUnknownAlarm,
		Detail: fmt.Sprintf("application %q has no alarm %q", k.Application, k.BusinessID),
	}
}
