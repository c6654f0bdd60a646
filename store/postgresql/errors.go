package postgresql

import (
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
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
	codeProtocol         = "08P01" // a pooler with statement pooling refuses BEGIN
)

// classRollback is the class of the codes that always mean a rollback, like codeSerialization.
const classRollback = "40"

// routineReplan is the server's function that reports codeNotSupported for a prepared statement whose table was
// migrated.
const routineReplan = "RevalidateCachedQuery"

// severityError is the severity of an error that ended the transaction, but not the session.
const severityError = "ERROR"

var (
	// errRolledBack reports a COMMIT to which the server replied ROLLBACK.
	errRolledBack = errors.New("the transaction had failed and was rolled back")
	// errClosed reports a COMMIT that was not sent.
	errClosed = errors.New("the connection was closed before COMMIT")
)

// Classify returns the class of an error.
func (d *Driver) Classify(err error) engine.Class { return classify(err) }

// DropConnections closes the connections of all pools, because connections to a former primary stay read-only.
func (d *Driver) DropConnections() {
	for _, p := range d.pools() {
		p.Reset()
	}
}

// classes are the classes of the errors that may succeed when repeated, or that mean a read-only server.
var classes = map[string]engine.Class{
	codeSerialization: engine.Serialization, codeDeadlock: engine.Deadlock, codeLockNotAvailable: engine.LockTimeout,
	codeKeyExists: engine.KeyExists, codeNotSupported: engine.Migrated, codeReadOnly: engine.ReadOnly,
}

// passing are the classes of server errors that may pass without an operator: a broken connection, a replica,
// a rollback, too few resources, a lock, an operator's intervention, a fault outside PostgreSQL.
var passing = []string{"08", "25", "40", "53", "55", "57", "58"}

// misconfigured are the classes of the server errors of a wrong user, password or database, also of one that is not
// made yet.
var misconfigured = []string{"28", "3D"}

// classify returns the class of an error.
func classify(err error) engine.Class {
	if errors.Is(err, errSharedSessions) || errors.Is(err, errMode) {
		return engine.Refused
	}
	p, answered := errors.AsType[*pgconn.PgError](err)
	if !answered {
		return engine.Unavailable
	}
	if class, known := classes[p.Code]; known {
		if class == engine.Migrated && p.Routine != routineReplan {
			return engine.Refused // Citus cannot run the statement
		}
		return class
	}
	if slices.Contains(misconfigured, p.Code[:2]) {
		return engine.Misconfigured
	}
	if slices.Contains(passing, p.Code[:2]) {
		return engine.Unavailable
	}
	return engine.Refused
}

// commitError maps the error of a COMMIT that was sent, or of a pipeline that ends with it. The outcome is unconfirmed,
// unless the server said that it rolled back. pgconn.SafeToRetry is of no use here: in pgx v5.12 it also reports a
// connection that is lost during COMMIT as safe ("conn closed"). distributed says that it is the error of a COMMIT of
// Citus: there a server may report an error for COMMIT although a worker has committed.
func commitError(err error, distributed bool) error {
	if err == nil || errors.Is(err, errRolledBack) {
		return err
	}
	p, answered := errors.AsType[*pgconn.PgError](err)
	if answered &&
		(p.SeverityUnlocalized == severityError && !distributed || p.Code == codeIdleTransaction ||
			p.Code[:2] == classRollback) {
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
