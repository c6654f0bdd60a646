// Package settings owns the settings of applications: what a person decides for one application, as a JSON document
// with versions.
//
// A document has the defaults of sets (clock.Defaults), the pause, and a part for each target: the destination of rings
// in RabbitMQ, the endpoint of a webhook, the topic of Kafka, the method of gRPC. The store keeps its versions as text.
// Each node reads the current ones every second (Watch), so the parts of a node see one Snapshot.
//
// # Invariants
//
//  1. Parse and Encode agree: Parse(s.Encode()) has the value s. A field that decides nothing is not written.
//  2. A document with an unknown field is refused. So an older build never applies a part of a newer document.
//  3. A Snapshot, and what it holds, never changes. The pointer of an endpoint or a method stays the same until its
//     content changes, so a target can know by it whether to make a new client.
//  4. Errors, logs and Redacted show no secret: no signing secret, no value of a header or of metadata, no query of a
//     URL.
//
// # Failures, effects, recovery
//
//	the database is away          the last known settings apply; claims stop after HoldAfter   Watch, by itself
//	a document cannot be read     the application's alarms wait, its sets have the last        a newer build, or a person
//	                              known defaults
//	an application has none       it has the defaults                                          nothing to do
package settings
