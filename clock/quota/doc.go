// Package quota keeps applications within their quotas (clock.Quotas): it knows how many alarms an application has
// pending, and how many it sets a second.
//
// # Sets a second
//
// Each node has a limiter for each application with the quota. An application may use the quota of a second at once.
//
// # Pending alarms
//
// No transaction of a set or ring counts alarms: one counter row of an application would make its writers wait for each
// other. A Keeper counts the due index of the database instead, shard by shard, again and again, as long as an
// application has the quota. To the last count it adds the changes by this node since then, and the sets that are being
// written. So sets and cancels of a single node count at once, and rings and the changes by other nodes with the next
// count. clock.Op.Decide takes the room (clock.Room), so only sets count that add an alarm. A set that changes a pending alarm adds none and is never refused for this quota.
//
// The counting of one shard takes a read of its part of the due index: some 20 ms with ten million alarms in 64 shards.
// The pauses between are twenty times as long, at most 2 s, so a round over all shards takes from 5 s to half a minute.
// The first round is as short as the pauses allow.
//
// # Invariants
//
//  1. Nothing is refused before the first round over all shards: an unknown number bounds nothing.
//  2. The estimate is never below the alarms that this node alone has added: it counts a set from the taking of its room
//     to its decision as one alarm, and then by the decision.
//  3. Admit does not block, and takes one mutex. An application without quotas costs nothing here.
//  4. Memory is bounded by the number of applications with quotas, times the shards.
//
// # Failures
//
//	failure                         effect                                         recovery
//	the database cannot be counted  the last counts go on, with this node's        the next count
//	                                changes; the log says so once
//	the node starts                 no quota of pending alarms for a round         the first round
//	a quota is new                  as at a start                                  the next whole round
//	several nodes set at once       the alarms of a round are too many at most     the next round
package quota
