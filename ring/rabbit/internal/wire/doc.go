// Package wire has the connections of package rabbit to the hosts of a broker: it opens them, bounds and gathers
// their writes, and reads confirms past the library. It knows nothing of rings, answers and delayed messages.
//
// A Broker dials its hosts in turn. Each connection is a Link. The library, amqp091-go, runs it: handshake, heartbeats,
// channels, returns, blocking, the end. Its own recovery is not used: after a recovery, the ack of a later message
// resolves the confirmation of an earlier message. The Use of a connection is the part between the library and the
// socket.
//
//	Messages     messages ──▶ mux ──▶ TLS (if any) ──▶ wire ──▶ socket     the wire bounds, gathers and counts the writes
//	             confirms ◀── mux ◀── TLS ◀── wire ◀── socket              the mux takes acks and nacks out of the frames
//	Bounded,     library ──▶ TLS ──▶ wire ──▶ socket
//	Marking,     library ◀── boundedConn ◀── TLS ◀── wire ◀── socket       content that is too large or unreadable is dropped
//	Whole
//	Plain        library ◀─▶ TLS ◀─▶ wire ◀─▶ socket
//
// The mux writes and reads frames without an allocation for each message, and wakes its user once for a whole batch.
// The library's own listener for confirms does not work here: it gets acks that arrive out of order only if the library
// itself counts the messages.
//
// # Invariants
//
//  1. A confirm is noted only after the library has handled all frames before it. So the return of an acked message is
//     already in the channel's buffer. If the broker sends several confirms for one message, the first counts.
//  2. No byte of a delivery goes to the operating system after its write limit, except one piece of a stopped process
//     (package ring, Late bytes). The wire reads the monotonic clock immediately before each system call of a delivery.
//     A process that was stopped and continues too late breaks its connection.
//  3. The wire counts the bytes that it accepted and the bytes that it wrote (Mark, Sent). A message that begins at or
//     behind Sent has not left the process, and cannot any more once Failure is not nil.
//  4. No frame waits in a buffer without a flush. The wire gathers writes only between BeginDelivery and EndDelivery.
//     It writes all other frames at once (handshake, heartbeat, close). A frame of the library that arrives during a
//     delivery leaves with the delivery, between two messages. Frames stay whole, and no message follows the close of
//     its channel.
//  5. Kill resets the socket, so that the operating system drops buffered bytes, and the broker never reads them.
//  6. A consuming connection bounds each message before the library sees it: the library would collect whole bodies of
//     up to 512 MiB. Properties have at most MaxHeader bytes. The bytes that the broker adds at a redelivery do not
//     count, and the bytes that a copy adds count from the first delivery. It also looks at each table of headers,
//     because the library ends its connection for a table that it does not read, and the broker would deliver such a
//     message for ever (table.go).
//  7. Each dial tries all hosts in turn, as long as DialTimeout lasts, beginning with the current host. A host stops
//     being the current one when a dial to it fails, when it fails a step of a set-up (Bounded), and when a user leaves
//     it. The broker's refusal of a single step, like 403 or 406, is no such failure: every host refuses it. Only the
//     TCP connect has a share of DialTimeout. The handshake on a slow host may take all of the rest, because a cluster
//     may be slow on every host.
//  8. Neither errors nor logs contain the URL. ParseURL does not pass on the parser's errors.
//
// # Failures
//
//	one host refuses, or dies         the dial goes on to the next host
//	one host does not reply           the dial waits for its share of DialTimeout, then goes on; later dials begin there
//	one host serves no connection     the dial, or the step, fails after DialTimeout; the next dial begins with the next host
//	a write stalls                    the wire breaks at the write limit
//	process stopped over the limit    the wire refuses to write
//	the broker blocks the connection  Blocked tells why; the user decides
package wire
