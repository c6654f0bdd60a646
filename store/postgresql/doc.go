// Package postgresql keeps alarms in PostgreSQL 13 or newer.
//
// # How it works
//
// Each kind of call has a connection pool of its own, so that no kind waits for another: requests that write, requests
// that read, rings, upkeep (loading, expiring, purging), and leases with the clock. Each statement is prepared once for
// each connection, statements of claims when it connects. BEGIN travels with the first statement of a transaction.
// COMMIT travels with the settlement of a claim. The round trips:
//
//	a group of sets, all new                 2   BEGIN+INSERT, COMMIT
//	a group of cancels                       2   BEGIN+UPDATE RETURNING, COMMIT; 4 with lock and UPDATE, if some alarms are not
//	                                             scheduled, are locked, or have changed since they were set
//	a group with sets of existing keys       4   BEGIN+INSERT, lock, UPDATE, COMMIT; one more to learn which keys were new, if some
//	                                             were; one more if another transaction holds a row
//	a batch of rings, all rows fresh         2   BEGIN+UPDATE RETURNING, COMMIT; if some rings are not confirmed, the second is
//	                                             settlement+attempts+COMMIT
//	a batch of rings, some rows not fresh    4   the same, with lock and UPDATE RETURNING of the other rows in between
//	a batch that rings at most once          4   before delivery: BEGIN+lock, UPDATE RETURNING, COMMIT; after: BEGIN+settlement+COMMIT
//	a two-phase batch                        3   before delivery: BEGIN+UPDATE RETURNING, COMMIT, and in between lock and
//	                                             UPDATE RETURNING if some rows are not fresh; after: BEGIN+UPDATE+COMMIT
//	a group of answers                       3   BEGIN+lock, UPDATE, COMMIT; 5 if it adds attempts
//
// A fresh row has not changed since a set inserted it, and no transaction holds it. A fresh row needs no separate lock
// and judgment.
//
// A new connection sets and checks its settings in one round trip after the startup (sessionSetup). They are no startup
// parameters, because PgBouncer refuses the parameters that it does not know.
//
// Plans are pinned: sessions discourage sequential scans, bitmap scans, hash joins and merge joins. A statement that
// was planned while the table was small would otherwise read the whole table until the next analyze.
//
// # Distributed databases
//
// With Config.Distributed the tables alarm and ring_attempt are distributed by Citus (schema/citus), and the URL leads
// to its coordinator. Citus keeps the rows of one Citus shard together, so a placement (package engine) is a Citus
// shard. Citus runs a statement on one worker as a whole if it names shards of a single Citus shard. Then COMMIT needs
// no second phase.
//
//   - The statements are the same as for one server. Marks in their text become conditions on the shards of the
//     placement (distributed.go). Only statements that insert alarms or attempts are others (queries/citus): clockd
//     gives the ids, and attempts have a statement of their own.
//   - Keys have the column shard last, not first as in databases that are divided by ranges. Citus divides by a hash of
//     the column, so its place in a key is free. A lookup by key or id reads the index as on one server, and a list
//     reads one range of each Citus shard.
//   - shard, node and build_level are read with each lease and each claim. shard and node are tables of the
//     coordinator. build_level has a copy on each server, because statements on alarms read it.
//   - A claim has a connection and a transaction for each placement of its alarms, so the pools are larger: RingConns
//     times the number of placements, and distributedConns times Conns.
//   - Sessions of the coordinator do not pass their settings on. lock_timeout is set in each transaction. The settings
//     of plans belong to the role (setPlans).
//   - An error of COMMIT, except a known rollback, leaves the outcome unknown (commitError).
//
// # Invariants
//
//  1. Everything runs READ COMMITTED, whatever the server's default: single statements by the session's setting,
//     transactions by BEGIN.
//  2. InsertAlarms does not wait for a row that a transaction has updated, because its NOT EXISTS reads the version
//     before the update. It waits only for a key that another transaction is inserting or purging at this moment, and
//     at most lockWait. Then the group begins again without that key. A key that was inserted while the statement ran
//     fails the whole statement (23505), and the group begins again. CancelScheduled passes over rows that are held
//     when it begins. It waits at most lockWait for a row that is taken afterwards.
//  3. Keys and ids are locked in ascending order. New rows are inserted in the order of the ops, until a group meets
//     another group.
//  4. A server error for COMMIT means that the transaction was rolled back, except in a distributed database. If the
//     connection ends before the reply, the outcome is unknown.
//
// # Failures, effects, recovery
//
//	server gone                    ErrUnavailable within Timeout                          the pool dials again
//	server became read-only        ErrUnavailable says so; all connections are closed,    new connections find the new primary
//	                               and each new one asks whether it may write
//	process stopped in a claim     the server ends the session after 5 s idle             the rows are due again
//	host vanished in a claim       the same: the server counts the idle time              the rows are due again
//	client stops reading a claim   the server gives the connection up after 8 s           the rows are due again
//	process stopped between two    nothing notices it before PostgreSQL 17, which has     the process continues, or is killed
//	statements of one round trip   a transaction_timeout
//	listening connection dies      Listen ends; after 10 s if the host vanished           the caller listens again; the sweep finds the alarms
//	pooler shares sessions         Check and Migrate compare four connections and refuse  an operator chooses session pooling
//	pooler or proxy drops the      each new connection checks one setting and is          an operator connects to the server itself
//	session's settings             refused
//	old snapshot held elsewhere    dead entries stay at the head of the due index         an operator watches the oldest xmin
package postgresql
