// Package recompute owns the recomputation of alarms when the time-zone data changes. A new build of clockd may bring
// newer data than the build before. Then alarms at a local time, and cron expressions in a time zone, are due at other
// instants than their rows say.
//
// The database stores the state of recomputations as one document: the newest version of the data that any node has
// had, a digest of each zone in that version, and the pending zones. Nodes change it one after the other, by its
// revision.
//
// A pending zone is scanned: its alarms are read by index, page by page, and each page is submitted to the
// clock.Service like any other request. So the rows are locked as for a set, and all heaps learn of moved rows as they
// learn of sets.
//
// # A node joins
//
//	its data is newer than the database's      it writes its version, and makes the zones pending whose digests differ
//	its data is as new                         nothing
//	its data is older                          it makes the zones pending whose digests differ, now and every Refresh, as long as it runs
//
// A node with older data sets and rings alarms as before, by its own data, in all zones. In a zone with other rules its
// times may be wrong. They are recomputed by a node with newer data: soon, because the zone is pending, and again after
// the last older node has ended.
//
//	         joined: newer data,                     scan that began more than
//	         or older and still running              Settle after the last request
//	idle ──────────────────────────────▶ pending ───────────────────────────────────▶ idle
//	                                      │   ▲
//	                                      └───┘ any other scan
//
// # Invariants
//
//  1. The stored version never falls. Only nodes whose data has the stored version scan.
//  2. A zone stays pending until a scan of it that began Settle after its last request has met every alarm. Each older
//     node repeats its requests at least twice within Settle. So the last scan begins when no older node has written
//     for some time.
//  3. A recomputation keeps the generation and everything else that a set gave. An alarm that is recomputed twice by
//     the same data changes once.
//  4. One node scans at a time: the owner in the document, until its lease expires. Two scans at once are harmless.
//  5. A page is at most PageSize alarms. Its position is stored, so another node goes on after it.
//
// # Failures, effects, recovery
//
//	owner dies                    its lease expires                                       another node goes on after the stored page
//	database away                 no page is read or written                              the next poll
//	row claimed or in doubt       the scan goes on, and does not count as complete        the next scan of the zone
//	row locked by another session the page fails                                          the page again, at the next poll
//	older nodes live for long     scans repeat, at most a tenth of the time               the first scan after the last of them has ended
//	a zone has left the data      its rows cannot be read: they end as unreadable, when they are due         a person sets them again
//	state unreadable              logged, nothing is recomputed                           a person, or a newer build
package recompute
