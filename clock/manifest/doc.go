// Package manifest owns manifests: what an application is to have, written down, so that a program can apply it again
// and again.
//
// A Manifest has Items of three kinds: members of the application's settings, destinations, and repeating alarms. Its
// label tells it from other manifests of the application. An item belongs to the label whose manifest named it first.
// Applier.Apply makes the items as the manifest has them, and leaves other things alone.
//
//	manifest ──▶ plan ──▶ record: the label owns its items, others wait
//	              │              ▼
//	              │         settings, with new ones   ──▶ alarms are set ──▶ alarms are cancelled ┐ the manifest does
//	              ▼                                                           settings without it ─┘ not name these
//	         a dry run ends here                                              record without it, others go on
//
// # Invariants
//
//  1. A manifest takes effect as single changes do, with their rules: sets, cancels, versions of settings. Between two
//     of them the application has a part of it.
//  2. A manifest with a fault changes nothing: the settings and all alarms are judged before the first change.
//  3. The record names an item before it is made, and until it is removed. So a program that dies in between loses no
//     item: the next Apply finds it.
//  4. One Apply changes an application at a time. Else an Apply would forget an item that another is about to make.
//     Others wait until it ends, or until the time that the record has for it.
//  5. Each change demands the versions of the plan: of the record and the settings, and the generation of an alarm. So
//     no change of others is overwritten.
//  6. The same manifest again changes nothing, and writes nothing.
//  7. An item that the manifest names no longer is removed only with Request.Prune. Only alarms that repeat are
//     cancelled: a single alarm under the same business id is the application's own.
//  8. An item of another label is an error, unless Request.TakeOver.
//
// # Failures, effects, recovery
//
//	the process dies midway         the application has a part, and others wait for up to 25 s
//	                                                                      apply again
//	the record cannot be read       nothing is applied to the application  a person mends the row in SQL, or deletes it
//	the settings change meanwhile   the plan is made again                by itself
//	an alarm changes meanwhile      the item has an error, others go on   apply again
//	a ring of an alarm is in doubt  the same
//	an alarm was not changed        nothing is removed from the settings, because it may name the destination
//	                                                                      apply again
//	the database is away            an error says so                      apply again
package manifest
