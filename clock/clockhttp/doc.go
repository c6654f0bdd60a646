// Package clockhttp is clockd's HTTP interface: routes, JSON, streams, and errors as problem+json. No other package
// imports echo. This package reaches the domain through the interfaces Alarms, Streams and Stats and the functions
// Nodes and Readiness. Package front has what it shares with gRPC: connections, callers, memory and failures.
// openapi.yaml is the contract, written by hand. Tests compare it with the routes and with every response that they
// receive. openapi-3.0.yaml is made from it by tools/openapi30.
//
// # Invariants
//
//  1. application and business_id are percent-decoded exactly once, from the escaped path. Everything after "/alarms/"
//     is the business id, also a bare slash, so a proxy that decodes %2F does no harm, but for an action at the end
//     (/kick, /events): a bare slash separates it from the business id, whatever the method is.
//  2. A payload is stored and returned byte for byte as it was given. The rings stream changes the layout alone: an
//     event is one line, so a line break between the tokens of a JSON payload becomes a blank.
//  3. No part of a body is ignored. An unknown field, a duplicate field and a wrong type are refused, each with its
//     name. null means that the field is left out, except for payload (null is a JSON value) and retry.limit (null
//     means no limit).
//  4. Every failure is a problem (RFC 9457) with a stable code (front.ProblemOf).
//  5. Memory is bounded. A body has a cap, a stream has a window, and a page of a list ends before the alarm that would
//     exceed ListBytes. All of it counts in front.Memory, as bytes arrive. A request that does not fit is refused with
//     413 or 503. Responses about committed changes and events of rings are counted, but never refused. Few requests
//     for metrics run at once.
//  6. No read or write on a connection lasts longer than Config.ReadTimeout or Config.WriteTimeout. A timeout for the
//     whole server would cut streams. A whole body must also arrive at Config.BodyRate after Config.BodyGrace.
//  7. A request that changes data gets its response even if the client has closed its sending half. A read ends then,
//     because a client repeats a read without harm. A client that has left looks like a client that has closed its
//     sending half. Requests of such a client are dropped after a second in the queue of writes.
//  8. A batch and a stream submit their items in order, so the items take effect one after the other. A stream has
//     exactly one result for each line unless its body ends abnormally.
//  9. Every request but a public one passes front.Front.Admit, with the need of its route and the application in its
//     path. A route without a need refuses every token. Lists over several applications have the covered ones alone.
//  10. Package ringstream decides what counts as written of the rings of a stream or a reserve, and which rings a
//     resumed stream lacks. A stream that breaks leaves at most the rings of one flush in doubt.
//  11. The port also speaks HTTP/2 without TLS, for gRPC clients. A running request takes memory until its client has
//     taken the response, and one that finds none is refused.
//  12. Procedures of other packages (Mount) share the port, the limits of bodies and the metrics. Pages (MountPages)
//     share the port and the metrics; they are public, because they have no data.
//  13. The response to a request, its problem and the log lines about it have its id.
//  14. A Port serves from the start of the node. Until Server.Attach it says what the node waits for, and refuses all
//     other requests. No connection ends when the server takes over.
//
// # Failures, effects and remedies
//
//	database is away at the start   /readyz says so; other requests are 503 unavailable                     the client repeats
//	client stops sending            after ReadTimeout: 408; a stream sends the results so far and is cut   the client repeats
//	client stops reading a stream   after WriteTimeout the stream is cut; lines already read may be set    the client repeats
//	database down                   503 with Retry-After; a stream says so line by line and goes on        the client repeats
//	an application's writes queue up  503 overloaded to it; a stream reads more slowly instead             the client repeats
//	an alarm's writes queue up      503 key_overloaded; a stream or a batch submits more slowly instead    the client repeats
//	client stops reading a response after WriteTimeout, or BodyTimeout for the whole, the response is cut  the client repeats
//	client leaves during a read     the read ends, also at the database's server                           no action needed
//	too many reads                  a read waits 2 s for its turn, then 503 overloaded                     the client repeats
//	no valid token                  401 with the reason; a line of a stream too; other streams end         a person makes a token
//	token does too much             429 with Retry-After; a stream is read more slowly                     the client repeats
//	client waits for less time      "Prefer: wait=5": at most 5 s; 503 overloaded at once if the queue is  the client repeats
//	                                longer, 503 unconfirmed or unavailable at the end
//	client leaves during a write    a write that waits long in the queue of writes is dropped              no action needed
//	response to an answer is lost   a repeated answer gets 409 stale_ring with the alarm and its answer    the client compares
//	subscriber breaks               the rings of the last flush are in doubt, later ones are unsent        the same ring again
//	node stops                      requests get their responses; streams finish the items they hold       the client reconnects
//	handler panics                  500, logged with its stack; a stream is cut                            a person
package clockhttp
