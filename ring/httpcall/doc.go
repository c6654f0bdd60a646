// Package httpcall is what targets have in common whose rings are requests to an endpoint of each application: packages
// webhook and grpc. They say what a request is (Sender, Exchange), and what a reply means. This package decides where,
// when and how many requests go.
//
//	Target.Lane ──▶ handover: one application's part of a batch ──▶ slots ──▶ Call: one request ──▶ Exchange of the target
//	                                                                            │
//	                           Guard ──▶ Target.Dial ──▶ ringConn: the write guard
//
// # Invariants
//
//  1. No byte of a ring is written after the write limit of its batch, but for the exception in package ring. ringConn
//     checks each piece of a write, and ends a write that the receiver does not read at the limit. The connection then
//     fails, with all its requests: with HTTP/2 other rings to the same host may be in doubt. A request that is not
//     written is cancelled some time before the limit (writeMargin). So a receiver that reads, and does not take one
//     request, fails no other.
//  2. Connections go only to public addresses and to allowed ones. Guard checks the address of each connection after
//     the name was resolved.
//  3. At most Config.InFlight requests are under way, HostConcurrency to one host, and Sender.Concurrency of one
//     application, but at most a quarter of the host's. Half of both limits is for requests whose reply is not overdue.
//     A reply is overdue after four times the usual time of the receiver (overdueFactor). So receivers that hang,
//     however many, keep slots from others only until their replies are overdue. When more replies are overdue than the
//     other half allows, the requests that become late (lateAfter) are given up: their rings are in doubt, and not
//     counted.
//  4. A receiver that is not known yet is not taken for a slow one: both classes have shares of their own
//     (load.hasRoom).
//  5. Bodies that are under way over one HTTP/2 connection fit its first window together. So a receiver that reads no
//     body keeps the window from no other one (transports).
//  6. No request is repeated after a byte of it may have arrived, whatever its headers (SetHeader) and its method say.
//     There is one exception: net/http repeats a request over HTTP/2 that the receiver has not begun (GOAWAY,
//     REFUSED_STREAM) or has reset with PROTOCOL_ERROR. A ring that rings at most once is in doubt then, and not
//     repeated (RequestWrite).
//  7. Replies that are not within patience (250 ms; less for a receiver that is usually quick) are awaited, up to the
//     timeout of the endpoint. A shared batch does not wait for a slow receiver at all, until a reply comes within
//     patience again. Rings without a slot are untaken.
//  8. A request keeps content of more than smallContent (16 KiB) in memory only until the write limit, if its target
//     uses Body. This bounds the memory of awaited rings.
//  9. There is no circuit breaker beside the quarantine of package ring: returned, doubtful and untaken rings put their
//     application into quarantine, and an application whose rings never arrive is held, with one probe a second. A
//     reply that asks to wait holds the application for that time, at most maxPause (a minute).
//  10. No reason has a secret of its request: Call.Report and the reasons of failed calls go through Redact, with the
//     texts of Exchange.Secrets.
//
// # Requests without a reply
//
//	a byte of the request was sent         in doubt; counted, unless the wait was ended early (stop, or too many late replies)
//	no byte, and no time was left          untaken
//	no byte, and the last connection to    returned and counted: no server, a wrong certificate, an address that the guard refuses
//	the address has failed
package httpcall
