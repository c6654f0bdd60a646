// Package stream is the target where no broker is configured: rings go to subscribers that hold a connection open, such as
// the server-sent events of clockhttp. Subscribers of one application share its rings.
//
// # Invariants
//
//  1. A ring goes to one subscriber. It is confirmed when the subscriber says that it was written and flushed, never by
//     having been queued.
//  2. A ring that no subscriber has taken up is withdrawn at the delivery's limit: unsent, as if never tried. One that was taken
//     up and not answered by then is in doubt.
//  3. An application without a subscriber is not accepted: its alarms wait in the database, uncounted.
//
// # What fails, what happens, who heals it
//
//	subscriber goes                what it had not taken up is unsent       rung to another, or held
//	subscriber goes while writing  in doubt                                 rung again under the same message id
//	subscriber does not read       its write deadline ends the connection   the others take its share
package stream
