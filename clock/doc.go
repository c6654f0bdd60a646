// Package clock is the domain of clockd: alarms, what a set or a cancel does to one, how a failed ring is tried again,
// and the Service that applications talk to. It imports nothing else of this project; stores, targets and faces
// import it.
//
// # The life of an alarm
//
//	          set                      due, claimed             confirmed
//	(no row) ─────▶ scheduled ──────────────────────▶ (in flight) ─────────▶ rung
//	                 ▲  │  ▲                            │      │
//	   set re-arms   │  │  └────────────────────────────┘      │ confirmed, with ack_timeout
//	 (generation+1)  │  │   returned, nacked: retry_times+1    ▼
//	                 │  │   in doubt: same ring again        ringing ──▶ rung (acknowledged)
//	                 │  │ cancel                               │
//	                 │  ▼                                      │ not acknowledged: rings again, up to max_rings
//	 rung expired dead cancelled                               ▼
//	                                                           dead
//
// In flight is no state of its own where the claim holds a transaction; a two-phase claim (SQLite, stream) commits it
// as ringing with rung_at empty and next_try_time at the claim's end.
//
// # Invariants
//
//  1. A generation only grows, by one at every change that a set makes; nothing else changes it.
//  2. A set that repeats what is stored changes nothing, whatever the state; a rung, expired or dead alarm
//     rings again only after a set that differs, a cancelled one only after a set.
//  3. Decide, DecideCancel and Settle are pure: the same for every engine, tested without one.
//  4. ring_no counts confirmed rings of the generation; a message bears ring_no+1, so all copies of one ring carry the
//     same message id.
//  5. No instant comes from this process's clock: now is a parameter, taken from the Timebase, a lower bound of
//     the database's clock.
//  6. Requests on one key take effect in the order of their arrival at this node, one by one (Writer).
//
// # What fails, what happens, who heals it
//
//	database down             requests end in ErrUnavailable, nothing was written   the caller repeats
//	COMMIT without an answer  ErrUnconfirmed, may or may not be written             the caller repeats: a repeat is safe
//	key held by a ring        its requests wait in a lane of their own, at most 5 s; then ErrUnavailable, or
//	                          ErrConflict ring_in_doubt where a two-phase claim holds it
//	queue of writes full      ErrUnavailable with RetryAfter                        the caller repeats later
//	database clock unknown    ErrUnavailable: a delay could not be counted          the Timebase keeps sampling
package clock
