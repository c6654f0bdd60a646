// Package engine is the one implementation of store.Store, above a Driver for each engine. Callers import package
// store; only the adapters (store/mysql, store/postgresql, store/sqlite), cmd and tests import this package.
//
// # Who does what
//
// A Driver contributes connections, statements, the class of each error, and measured fast paths. One method of a
// Driver is one or few statements. It returns the raw error and repeats nothing. Store adds everything that does not
// depend on the engine:
//
//	store.go       the Store, the time, durability
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
//	names.go       names of applications, many in one round trip
//	forecast.go    the due load by time
//	due.go         due pages and their ends, overdue alarms
//	setting.go     the versions of settings
//	token.go       access tokens, and the counter of their changes
//	act.go         the acts of the audit; write.go, setting.go and token.go record them in their transactions
//	upkeep.go      the pages of expiry, the pieces of a purge
//	cluster.go     nodes and leases: the order of the statements of each transaction
//	placement.go   databases of several servers: calls divided by placement, and their results put together
//	write.go       the plan of a write
//	claim.go       the plan of a claim
//	settle.go      settlements and releases
//	duerow.go      the row of a claim, in the order of LockDue's columns
//	probe.go       write probes
//	notice.go      notices between nodes, where the engine can pass them
//	row.go         the row of an alarm, in the order of its columns: the one list of them
//	binder.go      parameters and arguments of statements, filled from rows by column name
//	rows.go        the rows of attempts and keys, conversion of many rows
//	decode.go      the columns of an alarm that may be unreadable
//
// A name in parentheses at the end of a comment, like (LockDue), is a statement in queries/ENGINE.
//
// A call descends once. A set goes from Store.Write to the Driver's BeginWrite, then the plan calls the methods of
// WriteTx, and each of these runs its statements. No method of a Driver calls the Store.
//
// # Claims
//
// Store.Claim begins a ClaimTx, locks the due rows (LockDue), judges them (store.ClaimRequest.Judge), writes the rows
// that end (EndAlarms) and takes the rows that ring (Take). The claim commits, or keeps its transaction for the
// settlement:
//
//	                          held claim                     two-phase claim
//	transaction of the claim  replayed; then stays open      replayed; commits
//	settlement                in that transaction, not       in another transaction, replayed
//	                          replayed
//	release                   rolls back                     in another transaction, replayed
//
// A replayed claim judges all rows again. The ends that an earlier try has committed are reported once, because these
// rows are not due any more. Package ring calls the settlement of a two-phase claim again until the claim ends.
//
// An engine that holds claims (HoldingTx) must hold no lock of a row that does not ring. So the claim commits ended
// rows first, and gives up the locks of rows that it leaves; each time it then locks the rest again. Both are rare. An
// engine that holds no claims writes ends and takes in one transaction.
//
// The fast paths of the engines, and the general path that each equals:
//
//	HoldingTx.TakeFresh     PostgreSQL takes rows that have not changed since their set in one statement. It equals LockDue, Judge and
//	                        Take. The claim gives the rows up where Judge could decide otherwise.
//	EndAlarms, Settle,      PostgreSQL sends these statements with the COMMIT. EndAlarms therefore cannot learn there that a row has
//	Confirm                 changed; its statement passes over such a row, and LockDue finds it again.
//	Take                    PostgreSQL and SQLite return the payloads of the rows that they change. MySQL reads them in LockDue, and long
//	                        payloads after its UPDATE.
//	SettleTx.Confirm         MySQL and PostgreSQL write the row of clock.ConfirmedRow without sending it. It equals Settle.
//
// SettleTx.Settle locks the rows on MySQL, to learn which rows are unchanged since the claim. The other engines check
// this in the WHERE of the UPDATE.
//
// # Placements
//
// A distributed database keeps the rows of a shard on one server. A placement is a group of shards whose rows are
// always on one server together (Server.Placements). On one server there is one placement, and the code of this section
// does nothing. With several, each call works in each placement by itself, so that no transaction has rows of two
// servers:
//
//	Write     one transaction for each placement, all at once. The ops of a transaction that fails are refused.
//	Claim     one claim for each placement, all at once. Their rings are merged in due order. A claim that fails passes its alarms over.
//	Settle    each claim settles its rings. If only some fail, the outcome is unconfirmed, and a repeated call leaves out the others.
//	Expire    one read and one claim (EndOnly) for each placement, all at once
//	Purge     one placement after the other
//
// Only if all placements fail, the call fails. A page of due alarms, and the count of overdue alarms, is one statement
// for all placements. If it fails, each placement is read by itself, and those that fail are left out. So one server
// that is down stops the work on its own alarms alone. Lists and Keys need all servers.
//
// Limits of bytes (MaxBytes, LoadBytes) are divided among the placements in proportion to their ids or ops. Each
// placement loads at least one row.
//
// The id of an alarm is a number times the shard count, plus the shard (ShardOfID). So a call that has only ids knows
// their placements. The Store takes the numbers from the driver (Numbers) before it divides the ops, so the order of
// the ids is the order of the ops.
//
// # Columns
//
// Row lists the columns of an alarm. Row.Alarm reads them, and Row.SetAlarm sets them; a test compares the two.
// AttemptRow is the same for attempts. The statements name the columns too, and sqlc makes a struct of parameters from
// each statement. The types of binder.go fill these structs by name:
//
//	Params  one row, for statements that write a row                  SQLite
//	Arrays  an array for each column, for statements with unnest()    PostgreSQL, to insert and rewrite alarms
//	Args    the arguments of all rows, row by row                     MySQL
//
// A parameter has the name and the type of its column. A name that begins with Old is a column of the row before the
// change. Only Args may have other parameters: the caller names them and passes them. A parameter that matches no
// column is a panic when the program starts, so every test finds it. In arrays, and in the UPDATEs of MySQL, -1 stands
// for NULL, because the values of one column must have one type.
//
// So a new column of a set's content needs no change in an engine. A column that claims or settlements use does.
// docs/architecture.md lists the steps.
//
// # Why this shape
//
// The alternative is a library of helpers that each adapter calls in its own methods. Then deadlines, replays and error
// mapping stand in every method of every engine, and the compiler does not notice a method without a deadline. Here a
// method of a Driver needs none. The interfaces are small and grouped by purpose. A new engine implements them, and the
// suite storetest says whether it is right.
//
// # Invariants
//
//  1. Every call has a deadline. A context without one gets Config.Timeout; a write that may wait gets that wait on
//     top.
//  2. Store replays a transaction after a definite rollback or ErrReplay, at most maxReplays times with jitter. Reads
//     are not replayed, and neither is a held claim after its rings were handed out. A COMMIT without a reply is never
//     replayed. calls.mapError gives each error its kind.
//  3. Only Driver.Classify judges errors, by type and code, never by text.
//  4. A transaction that ends in an error is rolled back under a separate context (Tx.Rollback), also after a panic.
//     This includes the transaction of a held claim whose settlement fails.
//  5. clock.Op.Decide decides a write over rows that the transaction has locked. The WHERE of the UPDATE checks
//     generation and state again, because an engine may ignore SKIP LOCKED. The plan is the same on every engine. A
//     conditional UPDATE alone may decide a cancel of a scheduled alarm (WriteTx.Cancel), because Decide has no other
//     verdict for such a row.
//  6. Reads of requests have connections of their own and places in the ReadGate. A list keeps one row in memory.
//  7. One transaction purges at most maxPurge alarms.
//  8. The conditional UPDATE of Take decides a claim. It changes only the row versions that LockDue returned. A claim
//     that takes fewer rows runs again.
//  9. A settlement passes over rows that are not as the claim wrote them, and adds no attempt to them. So a repeated
//     settlement of a two-phase claim changes nothing. The caller settles with a later time than the claim's, because
//     update_time tells a settled row of an at-most-once claim from a row as the claim wrote it.
//  10. A result that is no failure, like an unknown alarm, is neither counted nor mapped.
//
// # Failures
//
//	what fails                 what happens                                               repaired by
//	deadlock, serialization    the transaction runs again (invariant 2)                   not needed
//	a lock is not free         the transaction runs again; a write then locks first       not needed
//	settlement of a held       clock.ErrUnavailable; the transaction is rolled back       the rows are due again
//	claim fails
//	reply to COMMIT lost       clock.ErrUnconfirmed                                       the caller repeats; that is safe
//	server is read-only        ErrReadOnly; the Driver drops its connections              new connections find the primary
//	build is too old           store.ErrOldBuild, from Check and from each transaction    a newer node
//	a refused migration        Migrate returns an error without clock.ErrUnavailable      a person
//	ctx of a call ends         the error names the end of ctx, whatever the server said   the caller
package engine
