// Package front is what the interfaces on a node's port share: HTTP (clockhttp), and gRPC (clockgrpc). It has the
// connections, the guard against pages of other sites, the callers, the memory of requests, and the failures. It knows
// no route, no format of a body, and of alarms only the ones in failures.
//
//	connection ──▶ Listener ──▶ net/http ──▶ clockhttp: route ──▶ Front.Admit ──▶ handler ──▶ response
//	               limits,       HTTP/1.1      │                   guard, caller     │
//	               counts        HTTP/2        └── Procedure ─────────────────▶ clockgrpc
//	                                                                                 │
//	                               Memory ◀── bodies, responses, running requests ───┤
//	                               ProblemOf, Refusal ◀────────── failures ──────────┘
//
// # Invariants
//
//  1. Every request but a public one passes Admit. No page of another site can change alarms or take rings (guard). A
//     browser names the page's site in Origin or Sec-Fetch-Site, and the server's name in Host. Probes and scrapers may
//     use any server name.
//  2. The caller of a request must have a role that allows its right, and cover its application. A request that Admit
//     has not seen has a caller that may do nothing.
//  3. Memory is bounded. All bodies and windows together take at most Config.BodyBytes. All responses that wait for
//     their clients take at most Config.ResponseBytes. Each class of requests has a share that other classes cannot
//     take, and every connection has room for one small body. Only responses about committed changes and rings are
//     counted without a limit (Force).
//  4. Requests of HTTP/2 share a connection, so no request sets its options or closes it, and no deadline outlives a
//     write, because a passed deadline resets its stream. Running requests take memory, half of RequestBytes for each
//     connection that may be open. Bytes that no handler has read yet are bounded by the flow control (receiveBuffer),
//     not by Memory. A connection with many requests that net/http answers itself, because their heads are too large,
//     is not read until its client takes the responses, and one whose client resets many streams is read more slowly
//     (streamWatch). Requests that may last have half of the memory of running requests (TakePlace).
//  5. ProblemOf turns every failure into a Problem (RFC 9457) with a stable code. Only unexpected failures are logged.
//  6. TLS ends below net/http: the listener's connections give the bytes within the encryption, so all limits above
//     hold for both kinds of ports. A client whose handshake takes longer than Config.ReadHeaderTimeout is cut.
//     A replaced certificate holds for new connections. If its files cannot be used, the former one stays in use.
//  7. Each request has an id, the client's or a new one (RequestIDs). Its failures and log lines have it.
//
// # Failures, effects and remedies
//
//	too many connections            a connection over a limit is closed at once, without TLS after a 503   the client reconnects
//	too many streams over HTTP/2    503 overloaded to further ones; other requests are served              the client repeats
//	certificate cannot be used      the former one stays in use, the log and /readyz say why; at start: no start   a person replaces the files
//	client without TLS              400 in plain text                                                      the client uses https://
//	no valid token                  401 with the reason; lasting responses end                             a person makes a token
//	token does not allow it         403 with the missing right                                             a person changes the token
//	token does too much             429 with Retry-After                                                   the client repeats
//	client's host vanishes          within 20 s the kernel ends the connection (FindVanished), or on       the client reconnects
//	                                HTTP/2 the server, whose ping gets no response
package front
