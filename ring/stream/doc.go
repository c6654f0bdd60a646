// Package stream is the target of applications whose rings go to subscribers. A subscriber holds a connection open,
// such as the server-sent events of clockhttp. The Router of package ring decides by application between this target
// and others. Subscribers of one application share its rings.
//
// Claims of the stream may hold their transaction while a lane hands over their batch, so a subscriber must not keep it
// open for long. A lane waits only patience (100 ms) for an application's subscribers, and in a round of the quarantine
// for patience after each report, up to maxPatience (250 ms). Then it returns the batch without them: rings that they
// have taken are Awaited, and package ring settles them when the report comes; the others are Untaken. From then on the
// application's outlet is slow, and a shared batch does not wait for it, until a report comes in time again. Measured
// on 2026-11-23, beside 20 applications whose subscribers report after 0.1 to 2 s: the alarms of quick subscribers were
// late by 0.7 / 1.5 ms (p50 / p99) at b60859a, and by 681 / 2,935 ms before, when a lane waited for all.
//
// A subscriber reports after the write to its connection. Buffers of the network hide a subscriber that is a little
// slow.
//
// Untaken rings make an application suspect: its alarms ring in rounds of the quarantine, which wait for patience also
// if the outlet is slow. It is healthy again after a round whose rings were all written in time, or after 10 s without
// an alarm. A late report frees a held application.
//
// # Invariants
//
//  1. A ring goes to one subscriber. It is confirmed when the subscriber reports that it was written and flushed, never
//     when it is only queued. If the subscriber reports that it has not begun a ring, the ring is unsent: it rings
//     again, also if it rings at most once. A ring that was begun and not flushed is in doubt.
//  2. A ring that no subscriber has taken by the write limit of its batch is withdrawn: it is untaken, and counts as
//     never tried. In a batch of healthy applications it is withdrawn at once if the subscribers are slow, otherwise
//     after patience.
//  3. A ring that was taken and not reported is awaited until the report. Where that is not allowed
//     (ring.Limits.Await), it is in doubt from the reply limit on. The end of the wait also ends the writes of its
//     rings, and takes the reports that have come until then. A later report changes nothing: a ring that was not begun
//     then stays in doubt.
//  4. At most one delivery is with each subscriber, of up to maxDelivery rings and about maxDeliveryBytes of payload.
//     All of them together have at most ring.HandedBytes of payload, and those of one application a quarter of it, so
//     subscribers that do not read take no more memory.
//  5. The target does not accept an application without a subscriber: its alarms wait in the database, uncounted.
//
// # Failures: effect and recovery
//
//	last subscriber leaves         rings that it had not taken are unsent   they wait for the next subscriber
//	subscriber leaves in a write   the begun rings are in doubt             rung again under the same message id, unless at most once
//	                               the rings not begun are unsent           they wait for a subscriber
//	the claim is lost (database)   the write of its rings ends, and the     rung again under the same message id
//	                               stream with it
//	a write outlasts the write     its rings are confirmed when flushed,    a later delivery
//	limit                          the others are unsent
//	subscriber does not read       its write deadline ends the connection   the other subscribers take its share
//	subscriber is slow             its rings are awaited; rings that it     a report within patience
//	                               has no time for ring in the quarantine
package stream
