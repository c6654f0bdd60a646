// Package grpc is the target of applications whose rings are unary calls of gRPC. Each application has a method of its
// own (Method): the server, the service and its method, and further metadata. The caller of New gives the
// methods; this package knows no settings and no database. Package httpcall sends the calls: it has the guard of
// addresses, the limits, the write guard and the wait for late replies.
//
// The message of a call is the payload of the ring, byte for byte: clockd knows no service. An application that wants a
// message of protobuf sets its alarms with the encoded message as payload. The response's message is read and ignored.
// The metadata has the ring's message id, which is the same for all copies of a ring, and the other properties of the
// ring, with the names that webhooks have.
//
// # Replies
//
// A reply is the status in the trailers. The deadline of the call (grpc-timeout) is the timeout of the method.
//
//	OK                       confirmed and acknowledged: the alarm is rung, also with ack_timeout
//	OK, with the metadata    confirmed; with ack_timeout the alarm waits for its acknowledgement
//	x-clockd-ack: later
//	FAILED_PRECONDITION      nacked for good: the alarm is dead, and the reason is in last_error
//	UNAVAILABLE,             nacked; the next try waits at least for grpc-retry-pushback-ms, and the application's other rings are held meanwhile
//	RESOURCE_EXHAUSTED
//	other                    nacked
//	no status                in doubt and counted, if a byte of the call was sent: timeout, reset, an answer that is not HTTP/2
//	a response that is not   nacked
//	gRPC
//	no connection            returned and counted: no server, no HTTP/2, a wrong certificate, an address that the guard refuses
//
// The route must be two-phase (ring.Route.HoldsClaims false), because no transaction may be open during a call. It has
// SeparateReplies.
//
// # Invariants
//
// Besides the invariants of package httpcall:
//
//  1. A ring is called once per try. The HTTP client repeats a call by itself only if no byte of it was written, or if
//     the server has said that it has not begun it or that it is a protocol error, and only before the write limit. It
//     never repeats a ring that rings at most once after a byte of it was written.
//  2. Of a response at most maxHeadBytes of metadata and maxResponse bytes of the message are read, for the timeout of
//     the method. Text from it is cleaned before it becomes a reason, and has no secrets of the request.
//  3. Connections speak HTTP/2: with TLS if the server chooses it, in plain text with prior knowledge.
package grpc
