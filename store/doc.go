// Package store is the storage contract: what a database must do for clockd, in small interfaces with their semantics
// in words, and the plan of a write that all engines share. An adapter an engine lives below it (mysql, postgresql,
// sqlite); storetest runs the same conformance suite against each, and that suite is the contract's last word.
//
// # Invariants
//
//  1. A write is decided by clock.Op.Decide over rows that the transaction has locked, and guarded again by generation and
//     state in its WHERE: right even on an engine that ignores SKIP LOCKED. A cancel of a scheduled alarm may be decided by a
//     conditional UPDATE alone (WriteTx.Cancel), whose condition leaves Decide no other verdict.
//  2. A write never waits for a row that somebody else holds, unless it is asked to (WriteRequest.Wait).
//  3. A claim is decided by its conditional UPDATE alone; locking before it only avoids waiting. A claim never takes
//     an id that it was not given, nor a row that is not due at ClaimRequest.Now.
//  4. No statement decides by the server's now(): instants are parameters.
//  5. A definite rollback (deadlock, serialization) is replayed inside the adapter, at most maxReplays times with jitter; a
//     COMMIT without an answer is clock.ErrUnconfirmed and never replayed. Everything else that the database did is
//     clock.ErrUnavailable. Errors are told apart by driver type and code, never by text.
//  6. The due scan reads the index alone, and only what is due: rows that are over have no next_try_time.
//  7. Locks of a client that stopped, or whose host vanished, are gone within 10 s: the server ends its session.
//  8. A server that takes no writes is refused when it is connected to, and left when it becomes so (ErrReadOnly).
//  9. Nothing but who loads what rests on a lease: two nodes that take themselves for a shard's owner meet in invariant 3.
//  10. Due order is (next_try_time, due_rank, id) in the index, in pages and in claims, where due_rank is 9 - priority.
//  11. An answer, a kick or a discard never rewrites payload, generation or claim_id, and is guarded by the ring_no too. What it, a
//     failed try or an unanswered ring leaves in ring_attempt is written in the same transaction.
//  12. What rings at most once is never taken by a claim that could take it again: its own claim (ClaimRequest.Once) commits
//     that it has rung, in doubt, and takes it out of the due index before anything is handed over.
//  13. Where a transaction ends in an error, the adapter has rolled back under a context of its own.
//
// # What claims and answers make of a row
//
//	            claim, confirmed                 ack
//	scheduled ───────────────────▶ ringing ───────────────▶ rung        without ack_timeout a confirmed ring is rung at once
//	    ▲    not confirmed, release  │ │ └─ touch: more time
//	    └────────────────────────────┘ │
//	                                   └── bury, or max_rings unanswered ──▶ dead
//	scheduled ── claim with Once ──▶ rung, in doubt ── confirmed ──▶ rung
//	    ▲                                  └── nacked, refused, no answer, the node died: stays so
//	    └── returned, not sent ────────────┘
//	dead, expired ── kick ──▶ scheduled; ── discard ──▶ cancelled
//
// A two-phase claim is ringing with rung_at NULL meanwhile: an answer to its ring waits.
//
// # What fails, what happens, who heals it
//
//	database down              every call ends in ErrUnavailable within its deadline      the pool reconnects
//	database is read-only      every call ends in ErrUnavailable that says so             new connections find the primary
//	requests use all           loading, purging, leases, the time and claims go on: they  nobody
//	connections                have pools of their own
//	node dies with a claim     the server rolls back (5 s idle, 10 s vanished client)     the rows are due again
//	node dies with shards      its leases end                                             others take them, with a new epoch
//	node dies, two-phase       the row is ringing with next_try_time at the claim's end   claimed again under its number
//	node dies, at most once    the row stays rung with in_doubt, and is in retry_report   a person, or nobody
//	COMMIT of a claim unknown  Settle returns ErrUnconfirmed                              the sweep finds what was not committed
//	two nodes claim one row    one conditional UPDATE meets it due, the other skips it    nobody
package store
