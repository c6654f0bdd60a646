// Package clockhttp is clockd's HTTP face: routes, JSON, streams, and errors as problem+json. It is the only package that
// knows echo; it sees the domain through the interfaces Alarms, Streams, Nodes and Readiness. openapi.yaml is the
// contract, written by hand; a test holds it against the routes and against every answer of the test-suite.
//
// # Invariants
//
//  1. application and business_id are percent-decoded exactly once, from the escaped path. Everything after "/alarms/"
//     is the business id, a bare slash included, so that a proxy which decodes %2F does no harm; what is posted to an alarm
//     ends with an action (/kick, /discard), which is cut off at the last slash.
//  2. A payload is stored and answered byte for byte as it was given. The one exception is layout: a line break between
//     the tokens of a JSON payload is a blank on the rings stream, where an event is one line.
//  3. Nothing in a body is passed over: an unknown field, a field that comes twice and a wrong type are refused, each by name.
//     null is as if the field were left out, but for payload (a JSON value like any other) and retry.limit (no limit).
//  4. Every failure is a problem (RFC 9457) made in one place, problemOf; its code is stable. Only what is not expected is
//     logged.
//  5. Memory is bounded: a body by its cap, all bodies together by Config.BodyBytes, a stream by its window, a list
//     by ListBytes. What does not fit is refused with 413 or 503.
//  6. No read or write on a connection lasts longer than Config.ReadTimeout or Config.WriteTimeout; a server-wide timeout would
//     cut streams.
//  7. A request that was read is answered even if the client has closed its sending half: what it asked for does
//     not depend on its connection.
//  8. A batch and a stream submit their items in order, so that they take effect as if one by one. A stream has exactly
//     one result a line unless its body ends abnormally.
//
// # What fails, what happens, who heals it
//
//	client stops sending            after ReadTimeout: 408; a stream answers what it has read and is cut   the client repeats
//	client stops reading a stream   after WriteTimeout the stream is cut; what was read may be set         the client repeats
//	database down                   503 with Retry-After; a stream says so line by line and goes on        the client repeats
//	writes queue up                 503 overloaded; a stream reads more slowly instead                     the client repeats
//	answer's outcome is lost        409 stale_ring to a repeat, with the alarm and its answer              the client compares
//	subscriber breaks               its delivery is in doubt (Delivery.Done with an error)                 the same ring again
//	node stops                      requests are answered, streams end after what they hold                the client reconnects
//	handler panics                  500, logged with its stack; a stream is cut                            a person
package clockhttp
