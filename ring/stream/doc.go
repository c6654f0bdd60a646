// Package stream is the target of applications whose rings go to subscribers. A subscriber holds a connection open, such as the
// server-sent events of clockhttp. The Router of package ring decides by application between this target and others. Subscribers of
// one application share its rings.
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
package stream
