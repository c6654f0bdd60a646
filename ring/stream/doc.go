// Package stream is the target of applications whose rings go to subscribers. A subscriber holds a connection open, such as the
// server-sent events of clockhttp. The Router of package ring decides by application between this target and others. Subscribers of
// one application share its rings.
//
// Claims of the stream are two-phase. Claims that hold their transaction ring 1.3 to 1.6 times as many alarms a second on PostgreSQL. But
// a claim ends when the slowest subscriber of its batch has reported. Subscribers that take 100 ms or longer then keep all workers
// busy, and the rings of other applications wait. Two-phase claims have this wait as well, but they hold no transaction and no row lock
// meanwhile. docs/lab/2026-11-22.md has the figures. Held claims may become useful once slow applications have workers of their own. Batches of their
// own are not enough: 20 slow applications then take all workers.
//
// # Invariants
//
//  1. A ring goes to one subscriber. It is confirmed when the subscriber reports that it was written and flushed, never when it
//     is only queued.
//  2. A ring that no subscriber has taken by the delivery's write limit is withdrawn: it is untaken, and counts as never tried. A
//     ring that was taken and not reported by the reply limit is in doubt.
//  3. The target does not accept an application without a subscriber: its alarms wait in the database, uncounted.
//
// # Failures: effect and recovery
//
//	subscriber leaves              rings that it had not taken are unsent   they go to another subscriber, or wait
//	subscriber leaves in a write   the rings are in doubt                   rung again under the same message id
//	subscriber does not read       its write deadline ends the connection   the other subscribers take its share
//	subscriber is slow             its deliveries keep workers busy, so     more workers (ring.Config.Workers) help
//	                               rings of other applications are late
package stream
