package engine

// Class is what an error means for the call that met it.
type Class int8

// The classes. Errors of the classes Deadlock to Migrated are definite rollbacks: nothing was written, and a repetition
// may succeed.
const (
	Unavailable   Class = iota // nothing was written; every error that no other class describes
	Deadlock                   // the server chose this transaction as the victim
	Serialization              // a conflict with another transaction, also at COMMIT in a cluster
	LockTimeout                // a row or key was locked for too long
	KeyExists                  // another transaction has inserted the key meanwhile
	Migrated                   // a migration changed the table of a prepared statement
	ReadOnly                   // the server takes no writes
	Misconfigured              // the database does not let clockd in, or its file cannot be made (store.ErrSetup); nothing was written
	Refused                    // the server or the driver refuses the statement whenever it comes; matters to migrations only
)

// Reasons of replays, as the metric counts them.
const (
	replayDeadlock      = "deadlock"
	replaySerialization = "serialization"
	replayLockTimeout   = "lock_timeout"
	replayKeyExists     = "key_exists"
	replayMigrated      = "migrated"
	replayRowsChanged   = "rows_changed"
)

// replayReason returns the reason to run a transaction again after an error of the class; "" if it must not run again.
func (c Class) replayReason() string {
	switch c {
	case Deadlock:
		return replayDeadlock
	case Serialization:
		return replaySerialization
	case LockTimeout:
		return replayLockTimeout
	case KeyExists:
		return replayKeyExists
	case Migrated:
		return replayMigrated
	default:
		return ""
	}
}

// refusesMigration reports whether a migration that met the class would meet it again at the next start.
func (c Class) refusesMigration() bool { return c == Refused || c == KeyExists || c == Migrated }
