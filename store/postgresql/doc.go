// Package postgresql keeps alarms in PostgreSQL 13 or newer.
//
// # How it works
//
// Three pools: one for requests, one that only rings use, and one for upkeep (loading, expiring, purging, leases, the time),
// so that none of them waits for another. Each statement is prepared once a connection. BEGIN travels with the first statement of a transaction and COMMIT with the last of a
// claim's corrections, so the round trips are:
//
//	a group of sets, all new                 2   BEGIN+INSERT, COMMIT
//	a group of cancels                       2   BEGIN+UPDATE RETURNING, COMMIT (4 where some are not scheduled, or locked or
//	                                             changed since they were set: lock, UPDATE)
//	a group with sets of existing keys       4   BEGIN+INSERT, lock, UPDATE, COMMIT; one more to learn which of them were new, where
//	                                             some were, and one where a row is held elsewhere
//	a batch of rings, all as they were set   2   BEGIN+UPDATE RETURNING, COMMIT, or corrections+attempts+COMMIT where some are not
//	                                             confirmed
//	a batch with others                      4   lock and UPDATE RETURNING of those between
//	a batch that rings at most once          4   BEGIN+lock, UPDATE RETURNING, COMMIT before it is delivered; BEGIN+corrections+COMMIT after
//	a two-phase batch                        3   BEGIN+UPDATE RETURNING, COMMIT before it is delivered (lock and UPDATE RETURNING between,
//	                                             where some were tried before), BEGIN+UPDATE+COMMIT after
//	a group of answers                       3   BEGIN+lock, UPDATE, COMMIT (5 where some are kept as attempts)
//
// Plans are pinned: sessions discourage sequential scans, bitmaps, hash and merge joins, because a statement that was
// planned while the table was small would otherwise read the whole of it until the next analyze.
//
// # Invariants
//
//  1. READ COMMITTED, whatever the server's default: single statements by the session's, transactions by BEGIN.
//  2. InsertAlarms meets no row that a transaction has updated (its NOT EXISTS reads the version before), so it waits for
//     nothing but a key that is just being inserted or purged elsewhere, and for that at most lockWait; the group then begins
//     again without it. A key that was inserted while the statement ran refuses it whole (23505), and the group begins again.
//     CancelScheduled passes over the rows that somebody holds when it begins, and waits as little for one taken meanwhile.
//  3. Keys and ids are locked in ascending order; new rows are inserted in the order of the ops until a group meets another.
//  4. An error that the server reports for COMMIT means that it was rolled back; a connection that ends first means that
//     nobody knows.
//
// # What fails, what happens, who heals it
//
//	server gone                    ErrUnavailable within Timeout                          the pool dials again
//	server became read-only        ErrUnavailable that says so; all connections are shut  the next ones find the new primary
//	                               each asks whether it may write
//	process stopped in a claim     the server ends the session after 5 s idle             the rows are due again
//	host vanished in a claim       the same: idle is counted at the server                the rows are due again
//	client stops reading a claim   the server gives the connection up after 8 s           the rows are due again
//	process stopped between two    nobody notices before PostgreSQL 17, which has a       the process goes on, or is killed
//	statements of one round trip   transaction_timeout
//	connection that listens dies   Listen ends, after 10 s where the host vanished        the caller listens again; the sweep loads
//	old snapshot held elsewhere    dead entries stay at the head of the due index         watch the oldest xmin
package postgresql
