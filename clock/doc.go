// Package clock is the domain of clockd: alarms, what a set, a cancel or an answer does to one, how a failed ring is tried
// again, and the Service that applications talk to. It imports nothing else of this project; stores, targets and
// faces import it.
//
// # The life of an alarm
//
//	          set                      due, claimed             confirmed
//	(no row) ─────▶ scheduled ──────────────────────▶ (in flight) ─────────▶ rung
//	                 ▲  │  ▲ ▲                          │      │               ▲
//	   set re-arms   │  │  │ └──────────────────────────┘      │ confirmed,    │
//	 (generation+1), │  │  │     returned, nacked:             │ with          │
//	 kick revives    │  │  │     retry_times+1                 ▼ ack_timeout   │
//	 dead, expired   │  │  │     in doubt: same ring again   ringing ──────────┘
//	                 │  │  │                                 │ │ ▲ │   ack
//	                 │  │  └─────────────────────────────────┘ │ └─┘ touch: more time
//	                 │  │              release                 │
//	                 │  │ cancel                               │ bury; or not acknowledged:
//	                 │  ▼                                      ▼ rings again, up to max_rings
//	 rung expired dead cancelled ◀────────────────────────── dead
//	                              discard (expired ones too)
//
// In flight is no state of its own where the claim holds a transaction; a two-phase claim (SQLite, stream) commits it
// as ringing with rung_at empty and next_try_time at the claim's end.
//
// An answer names a ring by its message id. Accepted is one to the latest ring while nobody has rung it again: the one that
// waits for its acknowledgement, also past its time, or the one in doubt, whose delivery the answer proves. An answer to a
// ring that is in flight waits for its outcome. All else is refused, as stale_ring with the alarm or as unknown_ring.
//
// With delivery at_most_once nothing is published twice: the claim commits the alarm as rung and in doubt, and only what
// certainly did not arrive (unsent, returned) goes back to scheduled. A nack, a doubt or the end of the process leave it rung
// with in_doubt said.
//
// # Invariants
//
//  1. A generation only grows, by one at every change that a set makes; nothing else changes it.
//  2. A set that repeats what is stored changes nothing, whatever the state; a rung, expired or dead alarm
//     rings again only after a set that differs, a cancelled one only after a set, a dead or expired one after a kick too.
//  3. Decide and Settle are pure: the same for every engine, tested without one.
//  4. ring_no counts confirmed rings of the generation; a message bears ring_no+1, so all copies of one ring carry the
//     same message id.
//  5. No instant comes from this process's clock: now is a parameter, taken from the Timebase, a lower bound of
//     the database's clock.
//  6. Requests on one key take effect in the order of their arrival at this node, one by one (Writer).
//  7. A ring is finished by at most one ack, release or bury, a generation by at most one ack; a refused answer changes nothing.
//     A release or a bury leaves an attempt, as a ring that is not answered does.
//  8. Answers, kicks and discards change neither the payload nor the generation, so a set that is repeated after them is judged
//     as before; but a kick lifts a latest_ring_at that has passed.
//
// # What fails, what happens, who heals it
//
//	database down             requests end in ErrUnavailable, nothing was written   the caller repeats
//	COMMIT without an answer  ErrUnconfirmed, may or may not be written             the caller repeats: a repeat is safe
//	key held by a ring        its requests wait in a lane of their own, at most 5 s; then ErrUnavailable, or
//	                          ErrConflict ring_in_doubt where a two-phase claim holds it (an answer: ErrUnavailable)
//	answer's outcome unknown  a repeat is refused as stale_ring with the alarm, whose answer tells   the caller reads it
//	answer lost               the alarm rings again as the next ring_no, up to max_rings, then dead  a person kicks it
//	kick by filter cut short  what was kicked is not dead any more                                   the caller repeats
//	queue of writes full      ErrUnavailable with RetryAfter                        the caller repeats later
//	database clock unknown    ErrUnavailable: a delay could not be counted          the Timebase keeps sampling
package clock
