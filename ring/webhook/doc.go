// Package webhook is the target of applications whose rings are HTTP requests. Each application has an Endpoint: its
// URL, headers, secrets and limits. The caller of New gives the endpoints; this package knows no settings and no
// database. Package httpcall sends the requests: it has the guard of addresses, the limits, the write guard and the
// wait for late replies.
//
// Each ring is one request, signed as Standard Webhooks says (https://www.standardwebhooks.com). The header webhook-id
// has the message id, which is the same for all copies of a ring. webhook-timestamp is the time of the claim by the
// database's clock.
//
// # Replies
//
//	2xx, not 202     confirmed and acknowledged: the alarm is rung, also with ack_timeout
//	202              confirmed; with ack_timeout the alarm waits for its acknowledgement
//	410              nacked for good: the alarm is dead, and the reason is in last_error
//	429, 503         nacked; the next try waits at least for Retry-After, and the application's other rings are held meanwhile (maxPause)
//	3xx              nacked; redirects are not followed
//	other            nacked
//	none             in doubt and counted, if a byte of the request was sent: timeout, reset, an answer that is not HTTP
//	no connection    returned and counted: no server, a wrong certificate, an address that the guard refuses
//
// Replies that are not within patience (250 ms) are awaited, up to the timeout of the endpoint. Package ring writes
// their outcomes when they come. A shared batch does not wait for a slow receiver at all, until a reply comes within
// patience again. Rings without a slot are untaken.
//
// The route must be two-phase (ring.Route.HoldsClaims false), because no transaction may be open during a request. It
// has SeparateReplies.
//
// # Invariants
//
//  1. No byte of a ring is written after the write limit of its batch, but for one piece of a stopped process (package
//     ring, Late bytes). ringConn checks each piece of a write. A request that is not written is cancelled some time
//     before the limit (writeMargin).
//  2. A ring is sent once per try. The HTTP client repeats a request by itself only if no byte of it was written, or if
//     an HTTP/2 receiver has said that it has not begun it or that it is a protocol error, and only before the write
//     limit. It never repeats a ring that rings at most once after a byte of it was written.
//  3. Connections go only to public addresses and to allowed ones. Guard checks the address of each connection after
//     the name was resolved. A connection to the proxy of the environment (Config.EnvironmentProxy) is not checked: the
//     operator has named it, and it decides about the receivers' addresses.
//  4. Of a response at most maxHeadBytes and maxResponse bytes are read, for the timeout of the endpoint and bodyTime.
//     Text from it is cleaned before it becomes a reason, and has no secrets of the request.
//  5. Requests under way are bounded: all of them, to one host, and of one application. Receivers that hang or are not
//     known yet have shares of these bounds, so the others always find slots (package httpcall).
//  6. A request keeps content of more than smallContent (16 KiB) in memory only until the write limit. This bounds the
//     memory of awaited rings.
//  7. There is no circuit breaker beside the quarantine of package ring: returned, doubtful and untaken rings put their
//     application into quarantine, and an application whose rings never arrive is held, with one probe a second. A
//     final 410 counts as a working receiver.
//
// # Failures: effect and recovery
//
//	receiver down           its rings are returned; its application is held           a probe is confirmed
//	receiver slow           its rings are awaited, or untaken without a slot          replies within patience
//	receiver hangs          its rings are in doubt after the timeout, and counted     the retry policy, then a probe
//	host does not answer    untaken at first; returned once a connection has failed   the next connection
//	receiver overloaded     Retry-After holds the application for up to a minute      Target.Changed at the end
//	endpoint missing        the application is absent, its alarms wait                EndpointsChanged
//	process stops           requests under way are awaited until the stop's limit     in doubt, and sent again under the same id
//	process dies            the claim ends (clock.ClaimTimeout), or the wait          any node sends it again under the same id
//	                        for the reply (clock.AwaitTimeout)
package webhook
