// Package httpcall is what targets have in common whose rings are requests to an endpoint of each application: packages webhook and grpc. They say
// what a request is (Sender, Exchange), and what a reply means. This package decides where, when and how many requests go.
//
//	Target.Lane ──▶ handover: one application's part of a batch ──▶ slots ──▶ Call: one request ──▶ Exchange of the target
//	                                                                            │
//	                           Guard ──▶ Target.Dial ──▶ ringConn: the write guard
//
// # Invariants
//
//  1. No byte of a ring is written after the write limit of its batch, but for the exception in package ring. ringConn checks each piece of a
//     write, and ends a write that the receiver does not read at the limit. The connection then fails, with all its requests: with HTTP/2 other rings to the same host may be in doubt. A request that
//     is not written is cancelled some time before the limit (writeMargin). So a receiver that reads, and does not take one request, fails no other.
//  2. Connections go only to public addresses and to allowed ones. Guard checks the address of each connection after the name was resolved.
//  3. At most Config.InFlight requests are under way, HostConcurrency to one host, and Sender.Concurrency of one application, but at most half of the
//     host's. Applications whose receivers are slow or not known yet have at most half of InFlight together. So the others always find slots.
//  4. Replies that are not within patience (250 ms) are awaited, up to the timeout of the endpoint. A shared batch does not wait for a slow receiver
//     at all, until a reply comes within patience again. Rings without a slot are untaken.
//  5. A request keeps content of more than smallContent (16 KiB) in memory only until the write limit, if its target uses Body. This bounds the
//     memory of awaited rings.
//  6. There is no circuit breaker beside the quarantine of package ring: returned, doubtful and untaken rings put their application into
//     quarantine, and an application whose rings never arrive is held, with one probe a second. A reply that asks to wait holds the application for
//     that time, at most maxPause (a minute).
//
// # Requests without a reply
//
//	a byte of the request was sent         in doubt; counted, unless the wait was ended early
//	no byte, and no time was left          untaken
//	no byte, and the last connection to    returned and counted: no server, a wrong certificate, an address that the guard refuses
//	the address has failed
package httpcall
