// Package engine is the one implementation of store.Store, above a Driver for each engine. Callers import package store; only the adapters
// (store/mysql, store/postgresql, store/sqlite), cmd and tests import this package.
//
// # Who does what
//
// A Driver contributes connections, statements, the class of each error, and measured fast paths. One method of a Driver is one or few
// statements. It returns the raw error and repeats nothing. Store adds everything that does not depend on the engine:
//
//	calls.go    deadlines, replays of definite rollbacks, kinds and counts of errors
//	schema.go   migrations under a lock, the check of schema, build level and shard count
//	read.go     places for reads (ReadGate), single reads, lists, keys in pieces
//	due.go      due pages and their ends, overdue alarms
//	upkeep.go   the pages of expiry, the pieces of a purge
//	cluster.go  nodes and leases: the order of the statements of each transaction
//	write.go    the plan of a write
//	probe.go    write probes
//	notice.go   notices between nodes, where the engine can pass them
//
// Claims and settlements are still a single method of the Driver (Claims). They use Calls for deadlines, replays and errors.
//
// A call descends once. A set goes from Store.Write to the Driver's BeginWrite, then the plan calls the methods of WriteTx, and each of
// these runs its statements. No method of a Driver calls the Store.
//
// # Why this shape
//
// The alternative is a library of helpers that each adapter calls in its own methods. Then deadlines, replays and error mapping stand in
// every method of every engine, and the compiler does not notice a method without a deadline. Here a method of a Driver needs none. The
// interfaces are small and grouped by purpose. A new engine implements them, and the suite storetest says whether it is right.
//
// # Invariants
//
//  1. Every call has a deadline. A context without one gets Config.Timeout; a write that may wait gets that wait on top.
//  2. A definite rollback is replayed, at most maxReplays times with jitter. So is ErrReplay. A COMMIT without a reply is
//     clock.ErrUnconfirmed and is never replayed. Every other failure of the database is clock.ErrUnavailable.
//  3. Only Driver.Classify judges errors, by type and code, never by text.
//  4. A transaction that ends in an error is rolled back under a separate context (Tx.Rollback), also after a panic.
//  5. clock.Op.Decide decides a write over rows that the transaction has locked. The plan is the same on every engine. A conditional UPDATE
//     alone may decide a cancel of a scheduled alarm (WriteTx.Cancel), because Decide has no other verdict for such a row.
//  6. Reads of requests have connections of their own and places in the ReadGate. A list keeps one row in memory.
//  7. One transaction purges at most maxPurge alarms.
//  8. An answer that is no failure, like an unknown alarm, is neither counted nor mapped.
//
// # Failures
//
//	what fails                 what happens                                               who heals it
//	deadlock, serialization    the transaction runs again                                 not needed
//	a lock is not free         the transaction runs again; a write then locks first       not needed
//	reply to COMMIT lost       clock.ErrUnconfirmed                                       the caller repeats; that is safe
//	server is read-only        ErrReadOnly; the Driver drops its connections              new connections find the primary
//	build is too old           store.ErrOldBuild, from Check and from each transaction    a newer node
//	a refused migration        Migrate returns an error without clock.ErrUnavailable      a person
//	ctx of a call ends         the error names the end of ctx, whatever the server said   the caller
package engine
