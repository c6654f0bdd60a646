// Package inbox takes the messages that applications send to clockd through RabbitMQ: answers to rings, and delayed
// messages. It belongs to package rabbit, which has the connections and their settings.
//
// An inbox says what happens to the messages of one queue. A consumer owns the connection, hands batches of deliveries
// to the inbox, and settles each delivery as soon as its outcome is known (consumer.go).
//
//	application ── default exchange ──▶ queue of answers ──▶ any node: Answerer ──▶ for each answer: ack, or put back after a pause
//	                                            ▲                                                           │
//	                                            └───────────────── requeue, or copy and ack ────────────────┘
//
// A requeue counts against a delivery limit, and the broker drops an answer over the limit. clockd declares the queue
// of answers without a limit (answerqueue.go). If the broker accepts the declaration, a requeue never drops an answer,
// and clockd requeues. If the broker refuses it, the queue may have a limit: a queue from RabbitMQ 3 has a limit of 20
// on RabbitMQ 4. Then clockd publishes a copy of the answer and acks the original after the confirm. AMQP does not show
// the arguments of a queue, so the rule is the same for every version of the broker. Copies need a connection of their
// own (copier.go).
//
// An answer from a stream is never copied: every node would copy each copy. The node submits it again, and keeps it
// unacked meanwhile.
//
//	sender ── exchange of the user's ──▶ intake queue ──▶ any node: Setter ──▶ commit ──▶ ack
//	                                                        │
//	                                                        └── cannot be an alarm ──▶ exchange for dead letters ──▶ confirm ──▶ ack
//
// A delayed message that cannot be stored now stays unacked, and the node submits it again after a pause. It never goes
// back to its queue, which may have a delivery limit. A message that is larger than any payload loses its content on
// the way in, so that the memory stays bounded, and ends the connection: the next one takes whole messages, one at a
// time, until the large one is a dead letter (intakeTurn).
//
// # Invariants
//
//  1. An answer is acked only after the Answerer has applied it or refused it finally, or after the broker has
//     confirmed a copy of it in the same queue. A message that is no answer is acked at once. All other answers are
//     delivered or submitted again, so an answer may be applied twice: the second time finds the ring answered. Each
//     delivery is settled as soon as its own outcome is known. A slow answer takes one place of the prefetch and delays
//     no other answer. The connection that acks publishes nothing, so an alarm of the broker does not stop acks.
//  2. Answers lose their bodies, and properties over 8 KiB. No answer is accepted once and refused at its next
//     delivery. So the memory of a node does not depend on the size of messages in this queue. Of headers that the
//     library does not read, answers lose all properties, delayed messages their headers (package wire).
//  3. The intake acks a message only after the commit of its alarm, after an alarm with the same message was found, or
//     after the confirm of its dead letter. A message with an id is one alarm, however often the broker delivers it, as
//     long as the alarm waits. Then it is a new one: a message that a consumer publishes again must not be lost, and
//     the broker's mark of a redelivery does not tell the two apart. A message without an id may be doubled by a
//     redelivery. Its time does not change while the node submits it again. While a ring of its alarm is under way or
//     in doubt, a message waits: it may be one that the consumer of this ring has published.
//  4. The intake has at most intakeMemory (64 MiB) of messages in flight, or one message of any size.
//
// # Failures
//
// Each line names a failure, then its effect, then the repair.
//
//	answers: connection lost,        a warning; answers without an ack are          Run connects again, at most every 5 s
//	channel closed, queue deleted    delivered again, to any node
//	answers, intake: queue deleted   RabbitMQ 3.10 does not tell consumers of        a consumer is renewed after a minute of
//	and declared again at once       quorum queues: messages wait, and a warning     silence, unless it holds messages
//	                                 is logged when they come
//	answers: database not available  each is put back after at most 3 s, and at     the broker delivers them again
//	                                 most the prefetch in that time
//	answers: an alarm's row is       that answer waits up to 5 s and is put back;   the broker delivers it again
//	locked                           the others are settled meanwhile
//	answers: copies blocked,         the originals stay unacked on this node, in    the node submits them again after each
//	returned, nacked                 their places of the prefetch                   pause
//	answers: a host takes copies     as above, after WriteTimeout; the next batch   the copies go to the next host
//	and confirms none                has one copy
//	answers: the queue is a stream   every node gets each answer, and the second     the node submits an unapplied answer again
//	                                 finds the ring answered; nothing is copied      after each pause
//	answers: the queue has a         the broker drops an answer whose connection    a person deletes the empty queue, and
//	delivery limit                   ended more often than the limit before a copy  clockd declares it without a limit
//	answers: a policy sets a         requeues and ends of connections count: the    package rabbit reports it; a person removes the
//	delivery limit                   broker drops an answer over the limit          limit
//	answers: large bodies, headers   bodies are read and dropped; a message with    the application sends less
//	                                 headers that are too large, too deep or too
//	                                 many is no answer: counted, acked
//	intake: connection lost          messages without an ack are delivered again,   Run connects again, at most every 5 s
//	                                 to any node; an id makes them one alarm
//	intake: database not available   the messages stay unacked on this node, and    the node submits them again, each after at
//	                                 take its places; the broker keeps the rest     most 3 s
//	intake: message without a valid  a dead letter, with code and detail            a person reads it
//	time, id or size
//	intake: headers that the library a dead letter with their first bytes           a person reads it
//	does not read
//	intake: the exchange for dead    the message stays unacked, and takes a place;  a person binds a queue; the node tries
//	letters returns, nacks, blocks   a warning. A large message stops this node's   again after each second
//	                                 intake
//	intake: queue or exchange for    a warning; nothing is taken                    a person declares it
//	dead letters missing
//	intake: the queue is a stream,   a warning, and dead letters: they are told by  a person chooses another queue, or the
//	or messages of one come again    the header x-stream-offset                     sender leaves the header out
package inbox
