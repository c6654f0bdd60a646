// Package store is the storage contract: small interfaces that say what clockd needs from a database. The type Store of
// package store/engine implements it once, above a driver for each engine: store/mysql, store/postgresql, store/sqlite.
// The conformance suite storetest runs against every engine and has the last word about the contract.
//
// # Invariants
//
// They say what a caller may rely on, and what the rows and statements of every engine keep to. Package store/engine
// says how it keeps to them: deadlines, replays, kinds of errors, the plan of a write.
//
//  1. A write has exactly the effect that clock.Op.Decide gives for the row, also on an engine that ignores SKIP
//     LOCKED.
//  2. A write waits for a row that another transaction has locked only if WriteRequest.LockWait asks for it. A key that
//     another transaction has inserted and not committed counts as such a row: its op gets the verdict clock.Locked,
//     and the other ops of the group are applied. A write loads at most WriteRequest.LoadBytes of stored payloads. The
//     ops beyond that limit get the verdict clock.Postpone.
//  3. The conditional UPDATE alone decides a claim. Locks taken before it only avoid waits. The UPDATE changes the row
//     version that the claim publishes: it compares generation, state and counters with the values read before, or
//     returns the rows that it changed. A claim never takes an id that is not in its request, nor a row that is not due
//     at ClaimRequest.Now.
//  4. No statement decides by the server's now(). Instants are parameters. A claim with ServerClock also reads the
//     server's clock, and Go code passes over the rows that are not due by it.
//  5. A COMMIT without a reply is clock.ErrUnconfirmed. Every other failure of the database is clock.ErrUnavailable.
//  6. The due scan reads the index alone. Finished rows have no next_try_time, so the scan does not meet them. No write
//     sets a next_try_time before the time of the write. Recent writes therefore lie in the last seconds of the due
//     index, or later.
//  7. The server ends the session of a client that stopped or whose host vanished. The client's locks are gone within
//     10 s.
//  8. clockd refuses to connect to a server that takes no writes. It leaves a server that stops taking writes.
//  9. Leases decide only which node loads a shard. If two nodes both believe that they own a shard, invariant 3 keeps
//     their claims apart.
//  10. Due order is (next_try_time, due_rank, id) in the index, in pages and in claims. due_rank holds the target and
//     the destination that the alarm names, and its priority (Rank).
//  11. An answer, a kick, a discard, a pause or a resume never rewrites payload, generation or claim_id. Its WHERE also
//     checks ring_no. The attempts of an answer, a failed try or an unanswered ring are written to ring_attempt in the
//     same transaction.
//  12. An at-most-once alarm is never taken by a claim that could take it again. It has a claim of its own
//     (ClaimRequest.AtMostOnce), which commits before the ring is handed over. The commit records the alarm as rung and
//     in doubt, and removes it from the due index.
//  13. The next start continues a killed migration. The migration's lock ends with the session that runs its
//     statements.
//  14. The database names the oldest build level that may work on it (BuildLevel). A build below that level claims,
//     writes, expires, purges and renews nothing. The check is part of the transaction, so the level cannot change
//     between the check and the work. Settle and Release are allowed.
//  15. An at-most-once alarm in doubt is not purged while its claim may still be settled, whatever the retention is.
//  16. An unreadable row never fails the rows beside it. A claim ends it as dead and names the column in last_error and
//     in an attempt. Lists and single reads show it with that reason. A set repairs it, unless its state is unknown.
//  17. The reason of an expired alarm says whether a ring may have arrived (clock.FateOf).
//  18. Reads of requests, which are lists and reads of one alarm, delay no other call. Their number is bounded. The
//     statement of a read ends when its caller leaves.
//  19. clock.FateOf alone defines the effect of a ring's outcome. A statement that writes an outcome without it
//     (TakeHeld, TakeFresh, ConfirmAlarms, TakeOnce, ExpireAlarms, KillAlarms, KillUnreadable) writes exactly that row.
//     Settle writes a row if and only if its fate differs from the stored row, whatever the kind of the outcome.
//  20. A settlement with awaited rings leaves their rows scheduled and in doubt, due again after clock.AwaitTimeout.
//     The claim may settle them again; it changes only rows that are as its last settlement wrote them.
//
// # Which read uses which index
//
//	primary key (id)                   claims, settlements, expiry, answers
//	alarm_key (application,            sets, cancels, gets, lists with and without a prefix
//	  business_id)
//	alarm_due (shard, next_try_time,   due pages (ListDue and its variants): ahead, of a backlog, of sweeps, of some applications;
//	  rank, id, application)           the count of overdue alarms (CountDue); on MySQL also the purge, in the entries without
//	                                   next_try_time
//	alarm_finished (finished_at, id)   the purge, on PostgreSQL and SQLite
//	alarm_attention (application,      lists and counts of expired, dead and paused alarms; on MySQL the index of the
//	  state, business_id)              table attention_alarm, which a transaction writes when it changes such a state
//
// A sweep beside a backlog needs no further index and no column for parked alarms. Because alarm_due contains the
// application, the database skips the rows of up to 64 named applications without fetching them. ListDueEnd runs first
// and bounds the number of entries read. Measured on MariaDB 10.11 with a million overdue rows of 64 shards, 16 shards
// a call (250,000 entries): an entry costs 0.5 to 0.7 us to skip one application, and 0.8 us to skip 64 (FIND_IN_SET: 8
// us). ListDueEnd costs about as much again. Sets pay nothing.
//
// An index that begins with application, or a column for parked rows, would make reads of one application cheaper. It
// would make every set dearer: one more entry to insert, and two entries that each ring moves. Its cost for sets among
// ten million rows is not measured, because no read needs it today. Lists by state and due range would need an index
// (application, next_try_time, id). Keys that begin with shard could replace alarm_key, but a list would then read
// every shard. Measure both with sets among ten million rows first.
//
// # Which statement changes the state of a row
//
// Package clock has the diagram of the states. The queries of all engines have the same names.
//
//	InsertAlarms                            a set of a new key: scheduled
//	RewriteAlarms                           a set of an existing row: scheduled
//	CancelAlarms, AmendAlarms               cancels; answers, resends, kicks, discards, pauses and resumes
//	CancelScheduled                         cancels of rows that are not read first, on PostgreSQL and SQLite
//	TakeHeld, TakeFresh                     held claim: rung, or ringing with ack_timeout, as if the ring were confirmed
//	TakeTwoPhase, TakeFreshTwoPhase         two-phase claim: ringing, with rung_at NULL; an answer to this ring waits
//	TakeOnce                                at-most-once claim: rung, in doubt
//	ConfirmAlarms                           settlement of a two-phase claim whose rings are all confirmed: rung or ringing
//	SettleAlarms                            settlement of every other row: the fate of its ring
//	ExpireAlarms, KillAlarms,               alarms that end without a ring: expired or dead
//	KillUnreadable, EndAlarms
//
// # Failures
//
//	what fails                 what happens                                               repaired by
//	migration killed           the next start continues with the interrupted statement    not needed
//	schema cannot be migrated  Migrate returns a SchemaError that names the statement     a person
//	build is too old           ErrOldBuild; the node drains (package preload/lease)       a newer node
//	database down              every call ends in ErrUnavailable within its deadline      the pool reconnects
//	wrong user, password,      ErrSetup, which is ErrUnavailable as well                  a person
//	database or folder
//	database is read-only      every call ends in ErrUnavailable that says so             new connections find the primary
//	requests use all           loading, purging, leases, the time and claims go on: they  not needed
//	connections                have pools of their own
//	reads find no place        at most 16 wait for each place, 2 s; others: overloaded    the client repeats
//	a read's client leaves     its statement ends (KILL, cancel request, interrupt),      not needed
//	                           at the latest after engine.ReadLimit
//	node dies with a claim     the server rolls back (5 s idle, 10 s vanished client)     the rows are due again
//	node dies with shards      its leases end                                             other nodes take them, with a new epoch
//	node dies with awaited     the rows are scheduled, in doubt, due after at most        a later claim, with the same ring number
//	rings                      clock.AwaitTimeout
//	node dies, two-phase       the row is ringing with next_try_time at the claim's end   a later claim, with the same ring number
//	node dies, at most once    the row stays rung, in doubt, and is in retry_report       a person, if at all
//	a row cannot be read       the next claim ends it as dead; last_error names the       a person, by a set
//	                           column
//	a key is held uncommitted  its write waits, then 503; the group's other ops commit    the holder, by COMMIT or ROLLBACK
//	COMMIT of a claim unknown  Settle returns ErrUnconfirmed                              the sweep finds uncommitted rows
//	two nodes claim one row    one conditional UPDATE finds it due, the other skips it    not needed
package store
