// Package ring rings what is due: it owns the heap of alarms due soon, decides what to ring next, and carries each batch
// through claim, delivery and settlement. It sees the database and the target as small interfaces.
//
//	heap ──due──▶ Loop ──batch──▶ worker: claim ──▶ deliver ──▶ settle ──▶ result ──▶ Loop
//	  ▲                                    (store)     (Target)    (store)              │
//	  └────────────────── due again, through the Reader ────────────────────────────────┘
//
// The loop sleeps until the head of the heap is due, on Linux by a timer of the kernel's: the runtime's own is up to a millisecond
// late in a process that has nothing else to do.
//
// # Invariants
//
//  1. Nothing is delivered that is not claimed, and a claim takes only what is due by the database's clock.
//  2. No byte of a ring is written later than Config.Write after its claim began, on the monotonic clock: a process that was
//     stopped meanwhile must not ring what others have rung or cancelled since.
//  3. Every ring is settled by its own outcome; a batch that is half confirmed is half rung.
//  4. While the target is not usable nothing is claimed: no try is counted, no connection of the database is held.
//  5. An id is in the heap once, or in flight. What is offered of an id in flight comes in when it lands, if it is news: pages
//     show a row as it was before its claim, and a set that waited for the claim is newer than the claim's outcome.
//  6. What the heap leaves out (no room, or its application is held) is told to the loader, by application and position, and
//     asked for again when there is use for it: nothing that was loaded waits for a sweep.
//  7. A full share of the heap takes room from the application that has most in it, and what is due is popped by turns: one
//     application's flood delays its own alarms. Of one application's alarms that are due at one instant the higher priority
//     (the lower rank) is popped first, whichever loader brought them; no priority of one application comes before another's turn.
//  8. Memory is bounded: by the heap's capacity, Workers batches of BatchRows and BatchBytes, and maxParked entries for each
//     suspect application.
//  9. What rings at most once is claimed apart from the others and committed as rung, in doubt, before a byte of it is written;
//     nothing but its own outcome, or that it was not sent, changes that. It is never published twice.
//  10. State that decides (who is free, who is suspect) belongs to the goroutine of Loop.Run alone.
//
// # An application's health
//
//	          returned, nacked, refused, in doubt            3 rounds in a row lost
//	healthy ─────────────────────────────────────▶ suspect ─────────────────────────────▶ held
//	   ▲  ▲                                           │                                     │
//	   │  └──────── a whole batch confirmed ──────────┘         a probe was confirmed       │
//	   └────────────────────────────────────────────────────────────────────────────────────┘
//	absent: the target does not accept the application (a stream without subscribers); healthy once it does
//
// Suspect: rings in batches of its own, through a worker that all suspects share and no healthy application waits for; while
// nothing is confirmed (a full queue that nacks) less and less often, down to a batch a second; after refusals the batches
// grow again to full size while more is waiting. Lost is a round that was returned (no queue is bound) or not answered (a
// quorum queue without its majority), without a confirmation. Held: one alarm a second is tried, the others stay in the
// database, unclaimed and uncounted, and are due at once when a probe is confirmed: no try is counted in vain, and what is not
// answered is not published over and over. A suspect or held application becomes absent too.
//
// # What fails, what happens, who heals it
//
//	target not usable         nothing is claimed; the expiry pass goes on       Target.Changed wakes the loop
//	no queue bound            returned: counted, backoff; then held             a probe
//	queue full, rejecting     nacked: counted, backoff, ever fewer batches      the first that is confirmed
//	queue without an answer   in doubt: not counted; then held                  a probe
//	broker refuses a message  batches are halved until the culprit is alone     it is counted, and dead past its limit;
//	                                                                            at once where it is the only one refused
//	a batch was not sent      released, as if not claimed                       claimed again 20 ms later
//	no confirm in time        in doubt: the same ring again, not counted        the next confirm
//	claim fails               the batch goes back to the heap, the loop pauses  50 ms to 2 s, with jitter; batches are
//	                                                                            halved, and grow again with each that lands
//	settle fails              the transaction is rolled back or in doubt        claimed again after the pause, or after the
//	                                                                            lease; may ring twice, under the same message id
//	at most once, and it      nacked, refused, no confirm, or the process died  nobody: it stays rung, with in_doubt said; only
//	may have arrived          before the outcome was written                    what was returned or not sent rings again
//	row locked by a set       passed over by the claim                          claimed again 20 ms later, then the sweep
//	process dies              the transaction dies with it                      any node's sweep
package ring
