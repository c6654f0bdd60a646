package postgresql

import (
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// SQLSTATE codes that are told apart.
const (
	codeSerialization    = "40001"
	codeDeadlock         = "40P01"
	codeLockNotAvailable = "55P03" // lock_timeout
	codeReadOnly         = "25006"
	codeIdleTransaction  = "25P03" // the server ended a session idle in its transaction
	codeNotSupported     = "0A000" // a prepared statement whose table was migrated under it; pgx prepares it anew
	codeUndefinedTable   = "42P01"
	codeKeyExists        = "23505"
)

// severityError is an error that ended the transaction and not the session.
const severityError = "ERROR"

var (
	// errRolledBack is a COMMIT that the server answered with ROLLBACK.
	errRolledBack = errors.New("the transaction had failed and was rolled back")
	// errClosed is a COMMIT that was not sent.
	errClosed = errors.New("the connection was closed before COMMIT")
)

// mapError returns err as a kind of package clock, with what was being done, and counts it.
func (s *Store) mapError(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, mapped := errors.AsType[*clock.Error](err); mapped {
		return s.metrics.Failed(err)
	}
	if hasCode(err, codeReadOnly) {
		for _, p := range s.pools() {
			p.Reset() // what is connected to a former primary stays read-only
		}
		err = fmt.Errorf("%w: %w", store.ErrReadOnly, err)
	}
	err = fmt.Errorf("postgresql: %s: %w", doing, err)
	if errors.Is(err, store.ErrReadOnly) {
		return s.metrics.Failed(&clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second, Cause: err,
			Detail: "the database is read-only: the URL leads to a standby, or the primary was changed",
		})
	}
	return s.metrics.Failed(clock.Unavailable(err))
}

// replayReason names a definite rollback that a repetition may heal: a deadlock, a serialization failure, a key that was
// locked for lockWait or inserted meanwhile, a statement whose table was changed by a migration; "" for all else.
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

// commitError judges what a COMMIT that was sent, or a pipeline that ends with it, came to: unconfirmed unless the server
// said that it was rolled back. pgconn.SafeToRetry is of no use here: pgx v5.12 says it of a connection that is lost while
// COMMIT is under way ("conn closed").
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

// hasCode reports whether err is the server's, with one of the codes.
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
