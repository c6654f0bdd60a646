// Package ringstream delivers rings to the clients of a server that hold a request open: subscribers of a stream, and
// workers that reserve. It owns the rule of what counts as written. The packages of the interfaces (clockhttp,
// clockgrpc) give it a Writer, which knows how rings look.
//
// # Resuming a stream
//
// A ring counts as written when the kernel has it, so it may be lost on its way to the client. A client that connects
// again names the last ring that it has. The Journal remembers which rings this process has written to which stream.
// The later ones may be lost: they are sent again (clock.Resend). A resend takes the confirmation back, in the
// database, so it works like any other ring in doubt: the same message id, any node, no cancelled alarm. It does so
// only for the delivery that was lost (its claim id), so a repeated resend does nothing.
//
//	stream of a client   [begin] 1 2 3 4 5     the client has 1 to 3, connects again, and names 3
//	its session after    [begin] 4? 5?         4 and 5 are missing until their resends are committed; a further resume finds them
//
// A session is one client's stream with all its resumptions. A client that has had no ring names the position of its
// stream, which it learns at the begin. A stream that is still open when its client resumes it ends: a vanished client
// may leave it open for a while.
//
// The memory is bounded in entries: 16,384 rings of an application, 131,072 rings in all (then the application with
// most entries loses its oldest), and a minute after the end of a stream. A client whose ring is not found learns that
// its stream was not resumed.
//
// # Invariants
//
//  1. Delivery.Done is called once for each delivery, also if a write panics.
//  2. A ring counts as written when the kernel has it. On HTTP/2 a flush ends earlier, so a delivery ends with a beat,
//     and waits for the write that has it (clock.Flushed).
//  3. A ring counts as begun before its write, because net/http may write buffered bytes after an error. No ring is
//     begun after Delivery.TooLateToWrite or the end of Delivery.Context.
//  4. A blocked write fails when Delivery.Context ends. A stream that does not write at that time goes on.
//  5. The journal has a ring before any byte of it is written, in the order of the writes.
//  6. After a client has resumed its stream, no ring is begun on the former one.
//  7. A resumed stream misses no ring that the journal has after the ring that the client named. It may send a ring
//     that the client has: under the same message id.
//
// # Failures: effect and recovery
//
//	a write fails                       its rings are in doubt, the stream ends         rung again; the client connects again
//	a write panics                      it and all later rings are in doubt             the same
//	it is too late for a ring           it is not written, and the stream goes on       rung again
//	the kernel does not take the bytes  the rings of the delivery are in doubt after    rung again; the client connects again
//	                                    the timeout, and the stream ends
//	a connection is lost                rings that were written and not received are  due at once when the client resumes here;
//	                                    rung, or wait for their acknowledgement       without that, ack_timeout alone rings again
//	the database fails in a resend      the rings stay in the journal                 repeated every second, and with the next resume
//	the node of the former stream ends  its journal is lost, so no stream is resumed  ack_timeout
package ringstream
