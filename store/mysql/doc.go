// Package mysql keeps alarms in MariaDB 10.6 or newer and in MySQL 8 or newer.
//
// # How it works
//
// Four pools: for requests that read, for those that write, for rings, and for upkeep (loading, expiring, purging, leases, the
// time), so that none of them waits for another. Statements are sent whole, with their parameters in them, so that each is one round trip. Where a statement takes many rows, its tuple (or the
// SELECT of literals that an UPDATE begins with) is repeated, up to 1,000 rows and three quarters of max_allowed_packet. In the
// pools of writes and of rings the first statement of a transaction begins it. The round trips are, COMMIT included:
//
//	a group of sets, all new                   2   INSERT
//	a group of sets of existing keys           4   INSERT refused, lock, UPDATE; mostly 3, see below
//	a group of cancels                         3   lock, UPDATE
//	a group of answers                         3   lock, UPDATE a state and ring_no; 5 where some are kept as attempts
//	a batch of rings, all confirmed            3   lock, UPDATE; 5 where some were not acknowledged before, and
//	                                               one more where payloads are longer than 4 KiB
//	a batch of rings, some not                 6   the same, UPDATE, INSERT and look at their attempts
//	a two-phase batch, all confirmed           5   lock, UPDATE and COMMIT before it is delivered; UPDATE of one generation after
//	a batch that rings at most once            6   lock, UPDATE and COMMIT before it is delivered; lock, UPDATE after
//	what is due, of all shards                 1
//
// A group is inserted as if all its keys were new: all or nothing, because the server does not tell which keys exist. A
// refused group has cost its time for nothing, so after one the next are read first (type optimism). An INSERT must not
// wait for a key that somebody holds: MariaDB refuses it at once with innodb_lock_wait_timeout = 0 for that statement. MySQL
// waits for a second at least, so there keys are always read first.
//
// Rows are ROW_FORMAT=REDUNDANT, where a NULL has its place, and claim_id has a fixed length: a row that rings or ends keeps its
// size and is changed in place.
//
// # Invariants
//
//  1. READ COMMITTED, whatever the server's default: set for every session.
//  2. A claim is decided by its conditional UPDATE (TakeAlarms, LeaseAlarms, TakeOnce); LockDue before it only avoids waiting, and
//     who rings a row does not rest on SKIP LOCKED, which some relatives of MySQL accept and ignore. What the ring carries is read
//     with the lock, so there it may be of the moment before the UPDATE; where that meets fewer rows, the claim begins again.
//  3. No lock is waited for longer than a second, but where a write is asked to wait.
//  4. Rows are found to be due, over or listed without locks, and locked by primary key or by alarm_key only: entries of
//     alarm_due are never held against a write that moves them. FORCE INDEX and STRAIGHT_JOIN
//     say so to the server, which would read a small table whole, or the purged rows by alarm_due, and wait for rows that
//     it does not want.
//  5. Ids are locked in ascending order, keys in theirs. What deadlocks all the same is replayed.
//  6. A COMMIT is unconfirmed unless the server itself says that it was rolled back.
//  7. Text is compared byte for byte, but padded with blanks: business ids do not end with any, prefixes may (ListAlarms).
//
// # What fails, what happens, who heals it
//
//	server gone                    ErrUnavailable within Timeout                      the pool dials again
//	server became read-only        its connections are given up (rejectReadOnly), and the next ones find the new primary
//	                               new ones to a read_only server are refused         (to a user whom read_only does not bind,
//	                                                                                  only the latter)
//	process stopped in a claim     MariaDB ends the transaction after 5 s idle,       the rows are due again
//	                               MySQL the connection after 8 s
//	host vanished in a claim       the same: idle is counted at the server            the rows are due again
//	client stops reading a claim   the server gives the connection up after 5 s       the rows are due again
//	max_allowed_packet too small   Check refuses below 1 MiB; a row that does not     an operator raises it
//	                               fit is ErrUnavailable
package mysql
