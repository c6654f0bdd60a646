// Package settings owns the settings of applications: what a person decides for one application, as a JSON document
// with versions.
//
// A document has the defaults of sets (clock.Defaults), the pause, and a Part for each target that needs one, such as
// the endpoint of a webhook. This package knows no target: each brings its Part, which is a list of Fields. A Form is
// made of the parts of a program. It reads and writes documents, and describes them, so that flags, schemas and pages
// are made from the same list.
//
//	ring/kafka ──▶ Part ─┐
//	ring/grpc ───▶ Part ─┼──▶ Form ──▶ documents, flags, schemas
//	...                  ┘      │
//	            the store ──▶ Watch ──▶ Snapshot ──▶ Part.In: the value of an application, for its target
//
// Destinations are further receivers of an application, under names: each has the objects of parts, as the document has
// them for the application itself. A target with a destination has a number, which stored alarms have too. The document
// keeps the numbers, in a member that people neither give nor see.
//
// The store keeps the versions of documents as text. Each node reads the current ones every second (Watch), so all parts
// of a node see one Snapshot. People and programs read and change settings through an Editor, over the network and from
// the command line alike. They see no secrets, and give back what they see: then the stored secrets stay.
//
// With Keys, a document with secrets is stored as people see it, with a member that has the whole document, encrypted.
// So SQL still reads the rest. The whole document is encrypted, not each secret, so who writes to the database cannot
// send kept secrets to another server.
//
// # Invariants
//
//  1. Form.Parse and Form.Encode agree: what Encode writes is read as the same settings. A field that decides nothing
//     is not written.
//
//  2. A document with an unknown field is refused. So an older build never applies a part of a newer document.
//
//  3. A Snapshot, and what it holds, never changes. The pointer of a part's value stays the same until its content
//     changes, so a target can know by it whether to make a new client.
//
//  4. Errors, logs, views, Redacted and Effective show no secret: no element of Secrets, no value of Texts, and a text
//     with Field.Redacted only as it is shown.
//     With a key, nor does the database.
//
//  5. What people see of a secret is never stored as the secret: Revise puts the stored one there, or refuses it.
//
//  6. A number stands for one target and destination of the application, for good: after the destination was removed,
//     after the document became unreadable, and after its key was lost.
//
//  7. A sealed document is read unchanged or not at all: it is bound to its application and to the part for people.
//
// # Failures, effects, recovery
//
//	the database is away          the last known settings apply; claims stop after HoldAfter   Watch, by itself
//	a document cannot be read     the application's alarms wait, its sets have the last        a newer build, or a person
//	                              known defaults
//	the key is not given, or a    the same as for an unreadable document                       a person gives the key,
//	sealed document is changed                                                                 or writes the settings anew
//	a destination is removed      its alarms are dead (clock.NoReceiver)                       a person makes it again,
//	                                                                                           and kicks them
//	an application has none       it has the defaults                                          nothing to do
//	two people change at once     the second is made of the first, or refused (IfVersion)      the second reads again
package settings
