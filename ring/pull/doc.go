// Package pull is the target of applications whose workers ask for rings. A worker reserves up to a number of rings,
// and waits for them. The answers of package clock finish, release, bury and touch them.
//
// A reserve waits in the line of its application. The loop claims as many due alarms as the waiting reserves have asked
// for, and no more (ring.RationedTarget). Deliver gives each reserve rings of the batch, the longest waiting reserve
// first. The caller of Reserve writes them to its client and reports the result, as a subscriber of package stream
// does.
//
// # The way of a ring to a reserve on another node
//
// Any node takes reserves. A node announces the applications that have reserves, as it announces subscribers of streams
// (preload/lease). Then the owners of the other shards leave the application's alarms to it, or to another such node.
// The application stays announced for linger (30 s) after its last reserve, because a worker that has finished its
// rings comes back. Meanwhile its due alarms wait in memory, unclaimed. After restAfter (2 s) its workers rest: then a
// node with workers that do not rest comes first, and gets the due alarms.
//
// # Invariants
//
//  1. A ring goes to one reserve. With ack_timeout no other reserve gets the alarm until the time-to-run is over, or an
//     answer releases it.
//  2. A reserve gets rings once, from one batch: at most as many as it asked for, and about maxBytes of payload.
//  3. Without a waiting reserve nothing is claimed, and nothing while reserves that do not read hold the memory for
//     payloads (ring.Handed).
//  4. Rings for which no reserve is left are untaken: their alarms are released uncounted.
//  5. A ring is confirmed when it was written and flushed. A ring that was not begun is unsent. A ring that was begun
//     and not flushed is in doubt.
//
// # Failures: effect and recovery
//
//	worker leaves while it waits      its reserve leaves the line                  nothing was claimed
//	worker leaves, rings are ready    unsent: the alarms are due again at once     the next reserve
//	worker leaves in the write        in doubt                                     rung again under the same message id
//	worker dies after the write       the alarm is ringing until ack_timeout       rung again under the next message id
//	all workers leave                 the alarms wait in the database              a reserve on any node
package pull
