// Package client is the Go client of clockd. It sets, cancels, reads and lists alarms, receives rings from the stream,
// answers them, and checks the signatures of webhooks. It is a module of its own, which needs Go 1.24 and the standard
// library alone.
//
//	c, err := client.New("http://127.0.0.1:8080")
//	...
//	alarm, err := c.Set(ctx, "shop", "order-4711", client.Set{When: client.At(deadline), Payload: client.JSON(order)})
//	...
//	alarm, err = c.Cancel(ctx, "shop", "order-4711")
//
// WithToken names the access token that the service may need. A Client is safe for concurrent use. Every call ends when
// its context ends.
//
// # Errors
//
// A call that fails returns an *Error. Its Code is stable, its Field names the wrong part of the input, and its Alarm
// is the alarm that caused a refusal. Unconfirmed tells whether the call may have changed something although it failed.
//
//	var failed *client.Error
//	if errors.As(err, &failed) && failed.Code == client.CodeAlreadyRung { ... }
//
// # Repeats
//
// A call has up to 5 tries (WithTries). Another try follows a network error, the end of WithTryTimeout, and the
// statuses 408, 429, 502, 503 and 504. The wait is the Retry-After of the response, otherwise it grows from 100 ms to 5
// s. Part of it is random, so that clients do not return at the same time. A call does not wait beyond its context's
// deadline, and not for a Retry-After of more than a minute: then it returns the error.
//
// A try with an unknown outcome may have changed the alarm. So a call is repeated only if a second effect of it does no
// harm:
//
//	Get, List, Page, Nodes,   they change nothing
//	Occurrences, Settings
//	ChangeSettings            settings that are so already stay. With a condition, the service knows the repeat by its content
//	                          and its token
//	Set with At               the repeat finds the alarm as the first try left it, and keeps it
//	Set with Repeat           as with At
//	Set with After and Absent the alarm is created once. If the first try created it, the repeat is refused (condition_failed)
//	Set with After            never repeated: each repeat would move the alarm
//	Cancel, Discard           a cancelled alarm stays cancelled
//	Pause                     a paused alarm stays paused
//	Resume                    an alarm that is not paused stays as it is. If it has rung meanwhile, the repeat is refused (already_rung)
//	Kick                      if the first try kicked the alarm, the repeat is refused (not_dead)
//	Ack, Release, Bury        if the first try was accepted, the repeat is refused (stale_ring), and the alarm shows this answer:
//	                          the call succeeds
//	Touch                     the time for the answer counts from the repeat
//	Trigger, Backfill         repeated only if the service has certainly not taken the request. A repeat after a lost response may ring again
//	Reserve                   repeated only if the service has certainly not taken the request. A repeat after a lost response would reserve
//	                          further rings, and the rings of that response are held until their AckTimeout
//	KickAll, DiscardAll       the repeat takes the alarms that are still dead or expired. Its result does not count the others
//	Batch                     repeated as a whole if each of its sets may be repeated
//	Apply                     never repeated: the lines without a result are the caller's to repeat
//
// If a repeat is refused after a try with an unknown outcome, the error has Unconfirmed set: the alarm in the error may
// be the call's own work.
//
// # Rings
//
// Consume receives the rings of an application whose target is the stream, calls a Handler once for each message id,
// and sends its answers. It goes on after each end of the stream:
//
//	connect ──▶ read ──▶ ring ──▶ wait for Handle ──▶ Handle ──▶ answer
//	   ▲         │ end, error, 50 s of silence          (only if the ring needs one)
//	   └─ pause ◀┘
//
// Reserve takes rings of an application whose target is pull, when a worker is free for them.
//
// A Ring without AckTimeout has rung when the service has written it. If this program ends before it has handled the
// ring, the ring is lost. Set an AckTimeout for work that must not be lost.
//
// A Verifier checks that a request is a webhook of the service, by its signature and its time.
//
// # Invariants
//
//  1. Memory is bounded: a response and an event have at most 16 MiB, and a line of results 1 MiB. A consumer keeps
//     Consumer.ReadAhead rings and Consumer.Memory message ids.
//  2. A payload of JSON is sent byte for byte. Apply alone replaces its line breaks by blanks.
//  3. An instant or a duration between two milliseconds is rounded up, so no alarm rings early.
//  4. The text of an error never has the password of the server's URL.
//  5. A consumer calls Handle once for each message id that it remembers. A copy of a ring repeats its answer only if
//     the service has not accepted the answer.
//
// # Failures, effects, recovery
//
//	server not reached        tried again, then *Error with Status 0                  the caller repeats
//	server stops in a call    tried again if that is safe, else Unconfirmed           the caller reads the alarm, or repeats
//	503 with Retry-After      tried again after that time                             none needed
//	response is not clockd's  *Error with the status, without Code                    a person: the URL names another program
//	response too slow         the try ends after WithTryTimeout and is repeated       none needed
//	stream of changes breaks  Apply returns the results so far, then the error        the caller repeats the changes without a result
//	stream of rings ends      rings in an unfinished write ring again                 Consume connects again
//	ring cannot be read       it is skipped; with AckTimeout the alarm rings again    a person: Failed tells the ring
//	rings go elsewhere (409)  no rings                                                Consume connects again, until the target is the stream
//	answer not accepted       the alarm rings again after its AckTimeout              Handle gets that ring, under a new message id
//	handlers are slow         the stream is not read; the service may end it          Consume connects again
//	program ends              rings that were read have Consumer.Drain; the rest of   none without AckTimeout
//	                          them is lost, or rings again with AckTimeout
package client
