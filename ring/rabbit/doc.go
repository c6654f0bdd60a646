// Package rabbit rings through RabbitMQ. It is the ring.Target that publishes each ring to a direct exchange, with the
// application as routing key. It and the packages below it alone import amqp091-go. Package wire has the connections,
// package inbox the queues that clockd consumes: answers and delayed messages.
//
// A Session owns a control connection. The control connection declares the exchange and finds out whether the broker
// takes messages. Each Lane owns a connection and a channel in confirm mode. So a write deadline, a broken socket or a
// blocked connection affects that lane only. Messages and confirms of lanes bypass the library (package wire).
//
//	lane ──▶ link (a connection) ─┬─▶ own channel      all rings of a healthy batch; the first application of a quarantine delivery
//	                              └─▶ side channels    one for each further application of a quarantine delivery
//
// The lane turns confirms into outcomes (lane.go). An ack or nack is noted in the confirms of the message's channel:
// confirmed or nacked. A return before the ack makes the ring returned. If the broker closes the channel because of a
// message, the unresolved rings are refused. For every other ring the wire tells whether a byte of it was written:
// without one the ring is unsent, else doubtful.
//
// A delivery for the quarantine opens one more channel for each further application, on the lane's connection: the side
// channels. A quorum queue without a majority does not confirm. Before the broker routes the first message of a channel
// to a queue, it registers the channel with the queue, and waits up to a minute for that. All later messages of the
// channel wait too. On separate channels the messages of other applications are confirmed meanwhile.
//
// Messages of the intake are the exception to "a ring goes to the exchange": an alarm may hold a message
// (clock.Message), which goes to the exchange that it names. Such rings have side channels of their own, one for each
// of these exchanges, and the lane first finds out whether the exchange exists (exchanges.go).
//
// Wakes own a third kind of connection. They carry wake-ups between nodes through the exchange <exchange>.wake.
//
//	node A: commit, due soon, shard 7 ──▶ <exchange>.wake ──"7"──▶ exclusive queue of node B, which follows shard 7
//
// The URL may name several hosts of one cluster. Package wire decides which host is dialled next. Each connection goes
// to one host, and the connections of a session may go to different hosts: a queue, an exchange and an alarm belong to
// the whole cluster.
//
// Findings asks the management API, if a URL is given, how safely queues keep confirmed messages. A classic queue on
// one node is less safe than a quorum queue, and so is a queue that drops its oldest messages.
//
// # Invariants
//
//  1. Confirmed means that a basic.ack of exactly that message arrived, and no basic.return before it. The broker sends
//     a return before its ack, and package wire keeps the order. The buffer for returns holds those of a whole batch.
//     The publishing goroutine drains it after the confirms.
//  2. Nacked means that a basic.nack of exactly that message arrived. The end of a channel or connection is no confirm:
//     a ring without a confirm by then is in doubt. If the broker sends several confirms for one message, the first
//     counts.
//  3. No byte of a ring goes to the operating system after limits.WriteBy, but for one piece of a stopped process
//     (package ring, Late bytes). A process that continues too late breaks its connection instead of ringing.
//  4. Unsent means that no byte of the ring went to the operating system, and that none can go any more. The connection
//     is broken before the outcome is reported.
//  5. A frame of the library during a delivery leaves between two messages, and no message follows the close of its
//     channel.
//  6. A channel with an unresolved ring is never used for another ring. Its link is set aside with the delivery, which
//     waits for late confirms, returns and faults there (latedelivery.go), and the lane opens another link. The caller
//     sets the most late deliveries of a lane. If the caller does not wait, or ends the wait, the socket is reset, so
//     that the operating system drops buffered bytes, and the broker never reads them. The socket lives on while only
//     some applications of a late delivery are given up.
//  7. After a doubt about the broker (blocked, exchange missing) the target is unusable until a probe is confirmed that
//     began after the doubt.
//  8. Wake-ups may be lost, and nothing waits for them. They are transient and not confirmed, and Send drops the oldest
//     instead of blocking. Whenever wake-ups to this node may have been lost, missed is called as soon as all bindings
//     exist.
//  9. Wake-ups lose bodies over 64 KiB, and all properties if the library does not read their headers. So the memory
//     of a node does not depend on the size of messages in this queue.
//  10. Neither errors, outcomes nor logs contain the URL. New parses it once, and does not pass on the parser's errors.
//  11. A connection leaves its host when it fails a step of a set-up or the opening of a lane's own channel, when it
//     does not confirm copies in time, and when the control connection to it is lost or a probe on it fails. After the
//     loss of any other connection (lane, wake-ups, answers, copies) the next dial still begins with the current host.
//     A lane also leaves its host when the write of a delivery stalls until limits.WriteBy, or when rings have no
//     confirm at limits.ReplyBy on an open connection. A host may confirm probes and no rings: probes are small and
//     touch no queue. If the cause is a queue, the next host does not confirm either, and the lanes go round the hosts.
//     So at most one leave in wire.UnconfirmingInterval has this cause. Such a leave closes no connection: the lane
//     opens another link after such a delivery in any case, and all other links stay where they are.
//  12. A ring to another exchange never leaves a ring to a different exchange in doubt. It is published only to an
//     exchange that was found and tried out over the same connection, and that the broker has not refused since the
//     last probe.
//
// # The control connection
//
//	        dial, declare exchange and queues            confirmed
//	(down) ───────────────────────────────────▶ probing ───────────▶ usable
//	  ▲                                         │ ▲ │ ▲                │ │
//	  │ backoff, 100 ms to 5 s                  │ │ │ └────────────────┘ │
//	  ├─────────────────────────────────────────┘ │ │  every ProbeInterval, and when a lane has an error
//	  │ error, or no confirm in ProbeTimeout      │ ▼                    │
//	  │                                         blocked                  │
//	  └──────────────────────────────────────────────────────────────────┘
//	    connection lost; a lane found a missing or forbidden exchange
//
// After a confirmed probe the target stays usable while the next probe is under way.
//
// A probe is two mandatory messages with an empty routing key. A broker with a memory or disk alarm takes one more
// message from each connection and confirms it. It does not confirm the second message and sends connection.blocked
// instead. So an alarm is noticed even while no ring is delivered. No queue should be bound with an empty key, so the
// broker must return the probe as unroutable. If a probe is confirmed without a return, an alternate exchange or a
// queue with an empty binding key takes unroutable messages, and Warnings says so.
//
// # Failures
//
// Each line names a failure, then its effect, then the repair.
//
//	broker unreachable, refuses      unusable; rings are unsent                     Run dials again, at most every 5 s
//	one of several hosts refuses,    its connections end; unusable until the next   the dial goes on to the next host
//	or dies                          probe
//	one of several hosts does not    the dial waits for its share of DialTimeout    the dial goes on to the next host, and
//	reply to the TCP connect                                                        later dials begin there
//	one of several hosts accepts     the dial, or the step, fails after             the next dial begins with the next host
//	connections and serves none      DialTimeout; a probe after ProbeTimeout
//	hosts are cut off from each      with pause_minority a host in the minority     the next host is in the majority
//	other                            closes its port after net_ticktime, like a
//	                                 dead host. Before, it confirms probes and
//	                                 few rings: as in the next line
//	one of several hosts confirms    the first delivery of each lane is awaited     the lane opens its next link on the next
//	probes, but no rings             from limits.ReplyBy, then in doubt             host, and delivers the next rings there
//	connections open slowly          lanes are opened before claims, each in at     nothing: rings wait for the lane, and are
//	                                 most DialTimeout                               late by the time of its opening
//	connections of lanes are cut     no claim begins without a lane                 ring.Loop opens lanes again, with backoff
//	broker stopped, network cut      awaited from limits.ReplyBy until the link     probe or heartbeat fails, Run dials
//	                                 ends, then in doubt; unusable when a probe     again
//	                                 has no confirm in ProbeTimeout
//	broker slow                      awaited from limits.ReplyBy, on the old link   late confirms
//	memory or disk alarm             awaited from limits.ReplyBy, unusable at once  the probe, blocked as well, is
//	                                                                                confirmed after the alarm
//	write stalls                     the wire breaks at limits.WriteBy: rings       the lane is opened again
//	                                 without a written byte are unsent, other
//	                                 rings in doubt
//	process stopped over the limit   the wire refuses to write: unsent              the lane is opened again
//	no queue bound                   returned, with 312 NO_ROUTE                    the application binds a queue
//	queue full (reject-publish)      nacked                                         the application consumes
//	quorum queue's leader dies with  nacked, on a channel that RabbitMQ 3.10 has    the next delivery replaces the channel
//	its host                         registered with the dead leader
//	quorum queue without majority    awaited, then in doubt, only its rings         the cluster regains its majority
//	                                 (times: see docs/architecture.md, When a
//	                                 silent queue is given up)
//	queue that confirms late, beside as above; each time its next rings are         confirms in time
//	others that do not               awaited for longer (patience)
//	message over the broker's limit  the broker closes the channel with 406:        the caller repeats halves of the batch
//	                                 every unresolved ring of the batch is refused  until the too large message is alone; the
//	                                                                                lane is opened again
//	exchange deleted (404),          in doubt, unusable                             Run connects and declares again
//	forbidden (403)
//	exchange of another type (406)   unusable; the error says what to do            a person deletes it or chooses another name;
//	                                                                                Run keeps trying
//	wake-ups: connection lost,       a warning; Send queues 1024 and drops the      Run connects, binds and calls missed;
//	exchange deleted, broker blocked oldest                                         the owner's sweep finds the alarms
//	message to an exchange that is   returned, without a try                        a person declares it or gives the right; the
//	missing, internal or forbidden                                                  next probe that passes allows a try
//	exchange of a message deleted,   returned if one ring has no confirm, else in   as above
//	or forbidden, during a delivery  doubt; only rings to this exchange
//	routing key of a topic exchange  as in the line above, at each try              a person gives the right
//	forbidden
//	more returns than foreseen       cannot happen: a batch larger than the buffer for returns is unsent
package rabbit
