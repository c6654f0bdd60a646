// Package mysql keeps alarms in MariaDB 10.6 or newer and in MySQL 8 or newer. Its tests run on MariaDB 10.11 and 11.8
// and on MySQL 9.7. TiDB 8.5 or newer is experimental: the tests of CI do not run on it.
//
// # How it works
//
// Each kind of call has a connection pool of its own, so that no kind waits for another: requests that read, requests
// that write, rings, upkeep (loading, expiring, purging), leases and the clock, and small look-ups. One more connection
// ends abandoned reads at the server.
//
// The driver puts parameters into the statement, so each statement is one round trip. A statement for many rows repeats
// its tuple, or the SELECT of literals at the beginning of an UPDATE. It has up to 1,000 rows and three quarters of
// max_allowed_packet. An INSERT of alarms leaves out the columns that have their default in all rows (insert.go). In
// the pools of writes and of rings the first statement of a transaction begins it. The round trips, including the
// COMMIT:
//
//	a group of sets, all new                   2   INSERT; on MySQL 4: lock, read, INSERT
//	a group of sets of existing keys           4   INSERT refused, lock, UPDATE; mostly 3, see below
//	a group of cancels                         3   lock, UPDATE
//	a group of answers                         3   lock, one UPDATE for each state and ring_no; 5 if it adds attempts
//	a batch of rings, all confirmed            3   lock, UPDATE; 5 if some earlier rings were not acknowledged;
//	                                               one more if payloads are longer than 4 KiB
//	a batch of rings, some not confirmed       6   lock, UPDATE, UPDATE, INSERT of attempts, search for excess attempts
//	a two-phase batch, all confirmed           6   before delivery: lock, UPDATE, COMMIT; after: read, one UPDATE for each generation
//	a batch that rings at most once            7   before delivery: lock, UPDATE, COMMIT; after: read, lock, UPDATE
//	due alarms of all shards                   1
//
// A group of sets is inserted as if all its keys were new: all or nothing, because the server does not tell which keys
// exist. A refused INSERT is wasted time, so after one the next groups are read first (type optimisticInsert). An
// INSERT must not wait for a key that another transaction holds. MariaDB refuses such a key at once, with
// innodb_lock_wait_timeout = 0 for that statement. MySQL waits for at least one second, so on MySQL keys are always
// read first.
//
// Rows are ROW_FORMAT=REDUNDANT, which reserves space for a NULL, and claim_id has a fixed length. So a row keeps its
// size when it rings or ends, and the server changes it in place.
//
// # TiDB
//
// Identify detects TiDB by VERSION(). The differences:
//
//   - Claims are two-phase, so no transaction is open while rings are delivered.
//   - TiDB parses SKIP LOCKED and locks nothing. lockFree sends NOWAIT instead, and halves the list at a locked row.
//   - TiDB ignores AND CHAIN. The sessions of claims do not commit by themselves, so a plain COMMIT does the same on
//     every server.
//   - An INSERT waits up to a second for a key that another transaction has inserted and not committed.
//     LockAlarmsAtOnce does not find such a key there.
//   - Each TiDB server gives out ids from a range of its own. So the ids of alarms are unordered: of alarms that are
//     due at one time, a later set may ring first. The ids of ring_attempt are in order (AUTO_ID_CACHE 1), because they
//     tell which attempt is the newest.
//   - The time is the clock of the TiDB server to which a connection leads.
//
// The suite also runs as if the server were TiDB (TestStoreAsTiDB). tools/tidb parses all statements with TiDB's
// parser.
//
// # Invariants
//
//  1. Every session is READ COMMITTED, without innodb_snapshot_isolation, whatever the server's defaults.
//  2. The conditional UPDATE decides a claim (TakeHeld, TakeTwoPhase, TakeOnce). LockDue before it only avoids waiting.
//     Nothing depends on SKIP LOCKED, which some relatives of MySQL accept and ignore. LockDue also reads the content
//     of the ring. On such a server the content may be older than the UPDATE; if the UPDATE meets fewer rows than were
//     locked, the claim begins again. Each conditional UPDATE of an alarm compares the generation.
//  3. No statement waits longer than a second for a lock, unless a write is asked to wait.
//  4. Due, finished and listed rows are found without locks. Rows are locked by primary key or by alarm_key only, so
//     that no lock on an entry of alarm_due delays a write that moves the entry. FORCE INDEX and STRAIGHT_JOIN enforce
//     this. Without them the server would read a small table whole, or read purged rows by alarm_due, and wait for
//     unrelated rows. A statement that locks by primary key waits for each locked row of its list, also if the row does
//     not match. So the settlement of a committed claim first reads, without locks, which rows the claim still has, and
//     locks only these.
//  5. Ids are locked in ascending order, and so are keys. A deadlock that happens all the same is replayed.
//  6. A failed COMMIT is unconfirmed, unless the server itself says that it rolled back.
//  7. Text is compared byte for byte, but padded with blanks. Business ids do not end with blanks; prefixes may
//     (ListAlarms).
//
// # Failures, effects, recovery
//
//	server gone                    ErrUnavailable within Timeout                      the pool dials again
//	server short of processor      a connect goes on when its caller leaves (dialer)  a later caller gets the connection
//	time
//	server became read-only        its connections are given up (rejectReadOnly),     new connections find the new primary
//	                               and new connections to a read_only server are
//	                               refused; a user whom read_only does not bind
//	                               gets only the refusal
//	a Galera server leaves the     the same, through DropConnections                  new connections find a server of
//	majority, or is joining                                                           the majority
//	failover in a Galera cluster   a new connection waits until its server has        the waiting connection is ready, or
//	                               applied the commits of the old writer (catchUp)    fails and the pool dials again
//	the size of a Galera cluster   the loaders are offered wrong ids of new alarms    the next sweep finds the alarms;
//	changes                        (renewIDStep), which may ring a second late; the   ReadDurability reads the new step,
//	                               rows are right                                     within a minute
//	process stopped in a claim     MariaDB and TiDB end the transaction after 5 s     the rows are due again
//	                               idle, MySQL the connection after 8 s
//	host vanished in a claim       the same: the server counts the idle time          the rows are due again
//	client stops reading a claim   the server gives the connection up after 5 s;      the rows are due again
//	                               TiDB keeps the locks for longer than 50 s
//	max_allowed_packet too small   Check refuses below 1 MiB; a row that does not     an operator raises it
//	                               fit is ErrUnavailable
package mysql
