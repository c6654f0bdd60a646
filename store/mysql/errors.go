package mysql

import (
	"errors"
	"slices"

	"github.com/go-sql-driver/mysql"

	"github.com/clockd/clockd/store/engine"
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
	errNotPrepared        = 1047 // a Galera server that is joining, or outside the majority, refuses the statement

	// of TiDB; the transaction is rolled back
	errCannotRetry   = 8002 // a conflict in a transaction with SELECT FOR UPDATE
	errSchemaChanged = 8028 // the schema changed during the transaction
	errWriteConflict = 9007 // a conflict with another transaction

	errUnspecified = 1105 // TiDB has locked a row in vain too often ("pessimistic lock retry limit reached"), or another failure without a number
)

// Classify returns the class of an error.
func (d *Driver) Classify(err error) engine.Class { return classify(err) }

// DropConnections closes the idle connections, because a Galera server that left the majority keeps its connections and
// refuses their statements. The driver itself gives up a connection whose server has become read-only (rejectReadOnly).
func (d *Driver) DropConnections() {
	for _, p := range d.pools() {
		size := p.Stats().MaxOpenConnections
		p.SetMaxIdleConns(-1)
		p.SetMaxIdleConns(size)
	}
}

// classify returns the class of an error. A lock timeout rolls back only the statement; the caller then rolls back the
// transaction.
func classify(err error) engine.Class {
	m, is := errors.AsType[*mysql.MySQLError](err)
	switch {
	case errors.Is(err, errUnknownStatement), errors.Is(err, errForeignTable):
		return engine.Refused
	case !is:
		return engine.Unavailable
	case m.Number == errDeadlock:
		return engine.Deadlock
	case m.Number == errLockTimeout:
		return engine.LockTimeout
	case slices.Contains(conflicts, m.Number), m.Number == errUnspecified:
		return engine.Serialization
	case m.Number == errNotPrepared:
		return engine.ReadOnly
	case slices.Contains(misconfigured, m.Number):
		return engine.Misconfigured
	case slices.Contains(passing, m.Number):
		return engine.Unavailable
	}
	return engine.Refused
}

// conflicts are the errors of a transaction that was rolled back because of another one. A COMMIT may fail with each of
// them.
var conflicts = []uint16{errRolledBackByPlugin, errCannotRetry, errSchemaChanged, errWriteConflict}

// passing are the server errors that pass without an operator: the server stops, is full of connections, ended the
// session or the statement, or is a replica. From 8022 on: TiDB does not reach its storage, or its storage is busy.
var passing = []uint16{
	1040, 1203, 1053, 1927, 1317, 3169, 1290, 1792, 1836, 8022, 8027, 9001, 9002, 9003, 9004, 9005,
}

// misconfigured are the server errors of a wrong user, password or database, also of one that is not made yet.
var misconfigured = []uint16{1044, 1045, 1049, 1698}

// definite reports whether a COMMIT that failed with err certainly rolled back.
func definite(err error) bool { return hasNumber(err, errDeadlock) || hasNumber(err, conflicts...) }

// keyTaken reports whether an INSERT met a key that exists or is locked.
func keyTaken(err error) bool { return hasNumber(err, errDuplicateKey, errLockTimeout) }

// hasNumber reports whether err is a server error whose number is listed.
func hasNumber(err error, numbers ...uint16) bool {
	m, is := errors.AsType[*mysql.MySQLError](err)
	return is && slices.Contains(numbers, m.Number)
}
