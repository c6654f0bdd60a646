// Package recovery prepares a database that was restored from a backup, before clockd works on it again.
//
// Between the backup and the loss of the database, its gap, clockd went on: it rang alarms, and applications set
// others. The restored database knows nothing of that. Without care it would give the message ids of the gap again, for
// other rings, and consumers that remember message ids would drop them.
//
// # What Finish does, and why
//
//	new alarms                   their ids begin store.SkippedIDs later: no alarm of the gap had such an id
//	alarms that are due          they may have rung in the gap. They are in doubt and ring again under the same message id, so a consumer
//	                             that remembers it sees one ring. A cancel is refused meanwhile (ring_in_doubt).
//	alarms that are due and      they may have rung in the gap, and a second ring is worse than none: they are rung, in doubt, and in
//	ring at most once            retry_report
//	alarms that wait, or are     they get a higher generation: a set of the gap made the next one, which may have rung with another content
//	over or paused
//	ringing alarms               they stay, because answers name their generation. Their next rings may repeat rings of the gap, under
//	                             their message ids.
//	repeating alarms             they keep their generation, because their times depend on it
//
// # Invariants
//
//  1. No message id of a new alarm was given before.
//  2. An alarm that rings at most once and was due does not ring again.
//  3. Finish may be called again at any time while no node works on the database, also after it has ended early.
//
// # Failures
//
//	what fails                    what happens                                           repaired by
//	a node works on the database  Finish refuses, when it has seen a lease renewed       stop all nodes
//	a node has just died          Finish waits until its lease has ended                 not needed
//	Finish ends early             some alarms are not marked                             call it again
//	Finish is never called        nothing is marked; on a server, ids are given again    a copy of clockd backup skips ids itself
package recovery
