// Package clockgrpc is clockd's interface over gRPC, gRPC-Web and Connect: the services clockd.v1.AlarmService and
// clockd.v1.ApplicationService, on the port of clock/clockhttp. clockd/v1/clockd.proto is the contract. Its messages,
// limits and errors have the names of the HTTP interface. This package reaches the domain through the interface Alarms,
// and shares package front with the HTTP interface. It decides nothing: it turns messages into the domain's requests,
// and the domain's decisions into messages. It also serves gRPC's health check and reflection, with the libraries of
// connect.
//
// # Invariants
//
//  1. No part of a request is ignored. An unknown field is refused, in JSON and in the binary form.
//  2. Each failure has a clockd.v1.Problem in its details, with the code that the HTTP interface has for it. Failures
//     before a request is decoded have none: a message that cannot be decoded, or a compressed message.
//  3. An alarm in a Problem has no payload, because clients limit the headers that carry it.
//  4. The server of the port reads the body of a request before this package does, so its limits of bodies, memory and
//     time hold. A response counts in the memory of responses while it is written. A page of a list and an alarm that
//     is read are refused if there is no memory.
//  5. No write lasts longer than Config.WriteTimeout. connect drops the errors of flushes, so the writer of each call
//     keeps them.
//  6. The server finds the caller of a request and checks its role (front.Front.Admit). admission checks the
//     application of each request, and asks for all applications if a request has none.
//  7. Package ringstream decides what counts as written on a stream of rings, and which rings a resumed stream lacks.
//  8. Health checks and reflection serve the protocols of gRPC alone: their failures have no Problem, unless the server
//     refuses the call.
//
// # Failures, effects and remedies
//
//	client stops reading            after WriteTimeout its stream is cut; others on its connection go on     the client repeats
//	client's host vanishes          the server's pings end the connection                                     the client reconnects
//	client's deadline passes        a change that still waits in the queue of writes is dropped              the client repeats
//	database down                   unavailable, with the time until a repeat in the details                 the client repeats
//	handler panics                  internal, logged with its stack; a stream is cut                         a person
package clockgrpc
