// Package wake carries wake-ups between nodes. A wake-up names rows that one node committed and another node rings. It
// spares these rows the wait for the next sweep.
//
// The Sender takes committed rows, chooses the rows for other nodes, and gives them to a Courier. The Receiver takes
// the wake-ups of other nodes and gives their rows to the loaders. Package ring/rabbit has a Courier through RabbitMQ.
// The Bulletin is a Courier through the database.
//
//	this node                                        another node
//	commit ─▶ Sender ─▶ Courier ┄┄ may be lost ┄┄▶ Courier ─▶ Receiver ─▶ loaders
//
// # Invariants
//
//  1. Correctness never depends on a wake-up. Wake-ups may be lost, may come twice, and may come late. The owner's
//     sweep finds every row without them.
//  2. A wake-up has rows of one shard. The Sender names only rows that other nodes ring and that are due before the end
//     of the window. Loaders read later rows from the database.
//  3. Announce and Send never block. Their queues are bounded. They drop and count wake-ups for which a queue has no
//     room.
//  4. The Receiver accepts nothing but valid wake-ups, and gives the loaders only rows of shards that this node loads.
//  5. After each moment when wake-ups may have been lost, the Bulletin calls Missed. Then the loaders read the recent
//     and the coming alarms once more.
//
// # Failures
//
//	failure                  effect                                        recovery
//	wake-up lost             the row is overdue when the sweep comes       the owner's sweep, within a second
//	courier too slow         wake-ups beyond 32,768 rows, or beyond        the owner's sweep
//	                         1 MiB in the Bulletin, are dropped
//	notices fail             wake-ups are dropped and counted; posts and   the sweep; afterwards loaders read the recent and the
//	                         connections are tried less often, up to 5 s   coming alarms again
//	broker away from a node  the wake-ups of the cut node are lost         the owner's sweep
//	clock unknown            Announce drops the rows                       the owner's sweep
//	invalid wake-up          Receive returns an error, no row is offered   none needed; the caller logs it
//	node stops               the Sender sends the waiting rows, then ends  the Courier must end after the Sender
package wake
