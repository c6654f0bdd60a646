// Package engine is the one implementation of store.Store, above a Driver for each engine. Callers import package store; only the adapters
// (store/mysql, store/postgresql, store/sqlite), cmd and tests import this package.
//
// # Who does what
//
// A Driver contributes connections, statements, the class of each error, and measured fast paths. One method of a Driver is one or few
// statements. It returns the raw error and repeats nothing. Claims are the exception, see below. Store adds everything that does not depend
// on the engine:
//
//	store.go       the Store, the time, durability, and the call of a Driver's Claim
//	driver.go      the interfaces of a Driver
//	calls.go       deadlines, replays of definite rollbacks, kinds and counts of errors
//	class.go       the classes of errors, and the classes that are replayed
//	metrics.go     the counts of errors and replays
//	schema.go      migrations under a lock, the check of schema, build level and shard count
//	migration.go   the migration files, and the run of their statements
//	durability.go  the finding about the isolation level
//	read.go        single reads, lists, keys in pieces
//	readgate.go    places for reads
//	list.go        the prefix of a list
//	due.go         due pages and their ends, overdue alarms
//	upkeep.go      the pages of expiry, the pieces of a purge
//	cluster.go     nodes and leases: the order of the statements of each transaction
//	write.go       the plan of a write
//	probe.go       write probes
//	notice.go      notices between nodes, where the engine can pass them
//	row.go         the row of an alarm, in the order of its columns
//	rows.go        the rows of attempts and keys, conversion of many rows
//	decode.go      the columns of an alarm that may be unreadable
//
// A call descends once. A set goes from Store.Write to the Driver's BeginWrite, then the plan calls the methods of WriteTx, and each of
// these runs its statements. No method of a Driver calls the Store.
//
// # Claims
//
// A claim and its settlement are still methods of each Driver (Claims). Store.Claim only calls Driver.Claim. These methods use Calls to set
// their deadline and to map their errors. Replays differ between the engines:
//
//	                             MySQL         PostgreSQL    SQLite
//	transaction of a claim       replayed      not replayed  not replayed
//	settlement, held claim       not replayed  not replayed  has no held claims
//	settlement, two-phase claim  replayed      replayed      not replayed
//
// After a definite rollback, a claim without replays fails with clock.ErrUnavailable. ring.Loop then returns the batch to its heap, and
// claims it again after a pause. Package ring calls the settlement of a two-phase claim again until the claim ends.
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
//  2. Store replays a transaction after a definite rollback or ErrReplay, at most maxReplays times with jitter. Reads are not
//     replayed. Claims has its own replays. A COMMIT without a reply is never replayed. Calls.MapError gives each error its kind.
//  3. Only Driver.Classify judges errors, by type and code, never by text.
//  4. A transaction that ends in an error is rolled back under a separate context (Tx.Rollback), also after a panic.
//  5. clock.Op.Decide decides a write over rows that the transaction has locked. The WHERE of the UPDATE checks generation and state again,
//     because an engine may ignore SKIP LOCKED. The plan is the same on every engine. A conditional UPDATE alone may decide a cancel of a
//     scheduled alarm (WriteTx.Cancel), because Decide has no other verdict for such a row.
//  6. Reads of requests have connections of their own and places in the ReadGate. A list keeps one row in memory.
//  7. One transaction purges at most maxPurge alarms.
//  8. A result that is no failure, like an unknown alarm, is neither counted nor mapped.
//
// # Failures
//
//	what fails                 what happens                                               who heals it
//	deadlock, serialization    the transaction runs again (invariant 2)                   not needed
//	a lock is not free         the transaction runs again; a write then locks first       not needed
//	a claim without replays    clock.ErrUnavailable                                       ring.Loop claims again
//	reply to COMMIT lost       clock.ErrUnconfirmed                                       the caller repeats; that is safe
//	server is read-only        ErrReadOnly; the Driver drops its connections              new connections find the primary
//	build is too old           store.ErrOldBuild, from Check and from each transaction    a newer node
//	a refused migration        Migrate returns an error without clock.ErrUnavailable      a person
//	ctx of a call ends         the error names the end of ctx, whatever the server said   the caller
package engine
