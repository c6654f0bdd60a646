// Package rabbit rings through RabbitMQ: it is the ring.Target that publishes each ring to a direct exchange with the
// application as routing key, and the only importer of amqp091-go.
//
// A Session owns a control connection, which declares the exchange and finds out whether the broker takes messages. Each
// Lane owns a connection and a channel in confirm mode of its own, so that a write deadline, a broken socket or a blocked
// connection is that lane's alone. The library's own recovery is not used: after it, the ack of a later message
// resolves an earlier one's confirmation.
//
// The library leads every connection: handshake, heartbeats, channels, returns, blocking, the end. Only the messages and
// confirms of lanes go past it, in the mux: frames are written and read there without an allocation each, and one wake-up
// serves a whole batch. The library's own listener for confirms would not do: acks that come out of order
// reach it only while the library counts the messages itself.
//
// Wakes own a third kind of connection, Answers a fourth. Wakes carry wake-ups between nodes through the exchange <exchange>.wake.
//
//	node A: commit, due soon, shard 7 ──▶ <exchange>.wake ──"7"──▶ exclusive queue of node B, which follows shard 7
//
//	application ── default exchange ──▶ <exchange>.answers ──▶ any node: batch, Answerer ──▶ ack, or back after a pause
//
// Findings asks the management API, where one is given, how safely the queues keep what they have confirmed: a confirm of a
// classic queue on one node, or of one that drops its oldest, says less than that of a quorum queue.
//
// # Invariants
//
//  1. Confirmed means a basic.ack of that very message and no basic.return before it. Returns are drained in the
//     publishing goroutine after the confirms, from a buffer that holds the whole batch: the broker sends a return
//     before its ack, and the mux notes an ack only when the library has dealt with all before it, so once a ring is
//     acked its return is already there.
//  2. Nacked means a basic.nack of that very message. The end of a channel or connection answers nothing: what has no answer
//     by then is in doubt. Of several answers to one message the first stands.
//  3. No byte of a ring is handed to the operating system after limits.Write: the wire looks at the monotonic clock
//     immediately before every system call of a delivery. A process that was stopped and goes on late breaks its
//     connection instead of ringing.
//  4. Unsent means that no byte of the ring was handed to the operating system and none can be any more: the wire
//     counts what it took and what left, and it is dead before the outcome is told.
//  5. Nothing waits unflushed: writes are gathered between begin and end of one delivery only, and every other frame
//     (handshake, heartbeat, close) is written through. A frame of the library that falls into a delivery leaves with it,
//     between two messages: frames are never torn, and no message follows the end of its channel.
//  6. A channel with an unresolved ring is never used again. Its socket is reset, so that bytes which wait in the
//     operating system's buffers are dropped rather than read by the broker later.
//  7. After doubt about the broker (blocked, exchange missing) the target is unusable until a probe that began after the
//     doubt is confirmed.
//  8. Wake-ups may be lost, never waited for: they are transient, not confirmed, and Send drops the oldest rather than
//     block. Whenever some may have been lost on the way to this node, missed is called, after all bindings are there.
//  9. An answer is acked only after the Answerer has applied it or refused it for good, or when it is none. All others are
//     delivered again, so that an answer may be applied more than once: the second time finds the ring answered.
//  10. Neither errors, outcomes nor logs hold the URL: it is parsed once, in New, and its own parse errors are not passed on.
//
// # The control connection
//
//	        dial, declare exchange and queues            confirmed
//	(down) ───────────────────────────────────▶ probing ───────────▶ usable
//	  ▲                                         │ ▲ │ ▲                │ │
//	  │ backoff, 100 ms to 5 s                  │ │ │ └────────────────┘ │
//	  ├─────────────────────────────────────────┘ │ │  every ProbeInterval, and when a lane met trouble
//	  │ error, or no answer in ProbeTimeout       │ ▼                    │
//	  │                                         blocked                  │
//	  └──────────────────────────────────────────────────────────────────┘
//	    connection lost; a lane met a missing or forbidden exchange
//
// While a probe that follows a confirmed one is under way, the target stays usable.
//
// A probe is two mandatory messages with an empty routing key. A broker in memory or disk alarm takes one more message from
// each connection, so it confirms the first; it does not confirm the second but answers connection.blocked: that is how an
// alarm is noticed while nothing rings. Nobody binds an empty key, so that the probe must come back as unroutable: when it
// is confirmed without that, an alternate exchange swallows what no queue is bound for, and Warnings says so.
//
// # What fails, what happens, who heals it
//
//	broker unreachable, refuses      unusable; lanes answer unsent                  Run dials again, at most every 5 s
//	broker stopped, network cut      in doubt at limits.Answer; unusable when a     probe or heartbeat fails, Run dials
//	                                 probe has no answer in ProbeTimeout            again
//	memory or disk alarm             in doubt at limits.Answer, unusable at once;   the probe, blocked as well, is
//	                                 the lane's connection is given up              confirmed when it is over
//	write stalls                     the wire breaks at limits.Write: what did not  the next delivery dials
//	                                 leave is unsent, the rest in doubt
//	process stopped over the limit   the wire refuses to write: unsent              the next delivery dials
//	no queue bound                   returned, with 312 NO_ROUTE                    the application binds a queue
//	queue full (reject-publish)      nacked                                         the application consumes
//	quorum queue without majority    in doubt at limits.Answer, only for its rings  the cluster
//	message over the broker's limit  the broker closes the channel with 406:        the caller repeats in halves until
//	                                 refused, every unresolved ring of the batch    the culprit is alone; the next
//	                                                                                delivery opens a channel
//	exchange deleted (404),          in doubt, unusable                             Run connects and declares again
//	forbidden (403)
//	exchange of another kind (406)   unusable, with what to do                      a person; Run keeps trying
//	wake-ups: connection lost, exchange  a warning; Send queues 1024 and drops the  Run connects, binds and calls missed;
//	deleted, broker blocked              oldest                                     the owner's sweep found the rest
//	answers: connection lost, channel    a warning; what is not acked is delivered  Run connects again, at most every 5 s
//	closed, queue deleted                again, to any node
//	answers: database not available      given back after at most 3 s, nothing      the broker delivers them again; on 4.x
//	                                     else is taken meanwhile                    clockd lifts the delivery limit (20)
//	more returns than foreseen       cannot happen: the channel is opened again with a larger buffer for a larger batch
package rabbit
