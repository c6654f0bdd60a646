// Package kafka is the target of applications whose rings are records of a Kafka topic. Each application has a topic of
// its own (Topic): its name, the key of records and their headers. The caller of New gives the topics; this
// package knows no settings and no database. It is the only package that imports franz-go.
//
//	lane ──▶ link: a client of franz-go ──▶ gate ──▶ connections to the partitions' leaders
//
// A Target has one client that probes the cluster: it asks some brokers at once whether they work. Each Lane has a link: a
// client that produces the rings of all applications, with acks=all, as an idempotent producer. It begins with the brokers
// that replied to the last probe. One delivery at a time uses a link. The gate sees every request before it is written.
//
// # Replies
//
//	no error                          confirmed: all in-sync replicas have the record
//	topic unknown or not allowed      returned and counted
//	record or batch not taken         refused: too large, not valid; none of the batch is stored, and it may be unknown
//	                                  which record is to blame
//	topic id unknown                  unsent: the topic was recreated; returned if the link was new too
//	other final error                 nacked and counted
//	error that may pass               sent again within the write limit, as the same record of the same producer; then in doubt
//	none                              awaited, then in doubt
//	none, and no byte was sent        untaken if the cluster is usable, because the partition has no leader; else unsent
//
// The route holds claims (ring.Route.HoldsClaims), as with RabbitMQ: leaders reply in milliseconds, and the wait for
// replies is bounded. It has no SeparateReplies, because a leader replies to all partitions of a request at once.
//
// # Invariants
//
//  1. No byte of a ring is written after the write limit of its batch, but for the exception in package ring.
//     gatedConn reads each request, refuses a produce request after the limit, ends one that is being written with
//     the next piece, and sets the limit as the deadline of the write. franz-go sends a record again by itself only
//     through the gate.
//  2. Unsent and untaken mean that no byte of the ring left this process, and that none can. The gate notes the
//     partitions of each produce request before its first byte is written. What franz-go says about a record that it
//     has cancelled decides nothing. Unsent is also a ring whose record the broker has refused because the link knows
//     an older topic of that name.
//  3. A ring that may have been written, and has no final reply, is in doubt. Its next try is another record with the
//     same message id.
//  4. A link with a record that has no reply is used for no other delivery. It is set aside with the delivery, and the
//     lane opens another link. So a record that is late holds up no later record, and a sequence number of the producer
//     is never given to two records.
//  5. The leader replies after AckTimeout at the latest, also if a replica is slow. So a slow partition delays the
//     replies to other partitions of the same request by that time. It delays neither their records nor the next
//     delivery. In a batch of one application, and of the quarantine, the leader has PatientAckTimeout: no other
//     application waits for these replies, and a ring that is confirmed late rings once, where one in doubt rings again.
//  6. A lane awaits at most maxLateDeliveries, because franz-go keeps the payloads of records without a reply.
//  7. clockd creates no topic.
//
// # Failures: effect and recovery
//
//	no broker reachable          unusable: no claims, no counted try                  the next probe
//	one broker hangs             as if it were dead; the probe asks the others         the broker goes on, or the others take it out
//	one broker dies              rings to its partitions are sent again to the new    the new leader
//	                             leader within the write limit, then untaken or
//	                             in doubt; other rings are confirmed
//	partition without a leader   untaken: only its application is suspect             the election of a leader
//	too few in-sync replicas     in doubt: only its application is suspect, then held the replicas come back
//	replica slow                 awaited; beside other applications in doubt after    the replica is fast, or leaves the in-sync
//	                             AckTimeout, then awaited in the quarantine; the      replicas
//	                             replies to the same request are late
//	topic missing, no right      returned: the application is held                    the topic or the right is given; a probe
//	topic recreated              franz-go keeps to the old topic's id, so the lane     the same
//	                             takes another link; no try is counted
//	record too large             refused; the batch is halved until it is alone: only  the retry policy ends it as dead
//	                             then is the try counted
//	no right to write            the lane does not open                               the right is given
//	idempotently
//	connection lost              sent again within the write limit; the broker knows  the same producer and sequence number
//	                             the copy
//	topic missing in settings    the application is absent, its alarms wait           TopicsChanged
//	process dies                 its transaction dies with it: a record that was      any node, under the same message id
//	                             written rings again
package kafka
