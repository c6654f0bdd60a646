// Package clock is the domain of clockd. It has the alarm, the effect of each set, cancel and answer on an alarm, the
// rules for trying a failed ring again, and the Service that applications talk to. Of this project it imports
// package repeat alone. Stores, targets and the HTTP interface import it.
//
// # The life of an alarm
//
//	          set               due, claimed               confirmed
//	(no row) ─────▶ scheduled ────────────────▶ (in flight) ────────────▶ rung
//	                 ▲  ▲  ▲                      │  ▲  │                  ▲
//	                 │  │  └──────────────────────┘  │  │ confirmed, with  │
//	                 │  │ returned, nacked, refused: │  │ ack_timeout      │ ack
//	                 │  │ retry_times+1              │  │                  │
//	                 │  │ in doubt: same ring again  │  ▼                  │
//	                 │  └───────────────────────── ringing ────────────────┘
//	   set re-arms   │       release                │ ▲ │
//	 (generation+1), │                              └─┘ │ bury, or
//	 kick revives    │                            touch │ max_rings used up
//	 dead, expired   │                                  ▼
//	 rung, expired, dead, cancelled                    dead
//
// A ringing alarm without an acknowledgement is claimed again at next_try_time, as the next ring. That ring has the
// outcomes of any other ring. So a ringing alarm becomes scheduled when its next ring is returned, nacked, refused or
// in doubt. It stays ringing when the ring was not sent.
//
// The other arrows:
//
//	scheduled, ringing     ─▶ scheduled   a different set (generation+1), unless a ring is in flight or in doubt
//	scheduled, ringing     ─▶ dead        a failed try used up the retries (returned, nacked, refused), or its receiver wants no further
//	                                      try; the row cannot be read
//	scheduled, ringing     ─▶ rung        confirmed with ack_timeout, by a reply that also acknowledges the ring
//	scheduled, ringing     ─▶ expired     latest_ring_at has passed at a claim or at the expiry pass
//	scheduled              ─▶ cancelled   cancel, unless a ring is in doubt; of a repeating alarm also from ringing
//	dead, expired          ─▶ cancelled   discard
//	scheduled              ─▶ paused      pause, unless a ring is in flight or in doubt; of a repeating alarm also from ringing
//	paused                 ─▶ scheduled   resume: due at ring_at, or at once if that has passed; a ring that waits for its
//	                                      acknowledgement: ringing
//	paused                 ─▶ paused      a different set (generation+1); an answer to a ring that waits for it
//	paused                 ─▶ cancelled   cancel
//	scheduled, rung, expired, dead
//	                       ─▶ scheduled   trigger: due at once, unless a ring is in flight or in doubt (generation+1; of a repeating alarm a ring
//	                                      besides its occurrences)
//	scheduled, ringing     ─▶ scheduled, ringing  backfill of a repeating alarm: rings besides its occurrences follow, one by one, for
//	                                      occurrences of the past
//	scheduled, paused, ringing            a recomputation changes the time of the next ring, not the state
//	rung, ringing          ─▶ scheduled   in doubt: a resend, because the receiver of the last ring does not have it
//	scheduled, in doubt    ─▶ rung, dead, scheduled, ringing
//	                                      ack, bury, release, touch: an answer proves that the ring in doubt arrived
//
// In flight is not a stored state while a held claim keeps its transaction open. A two-phase claim (SQLite) commits the
// row as ringing, with rung_at empty and next_try_time at the claim's end.
//
// An answer names a ring by its message id. Two rings can be answered. The first is the latest ring while it waits for
// its acknowledgement: also after ack_timeout, as long as no claim has taken the alarm again. The second is the ring in
// doubt of a scheduled alarm that wants an acknowledgement: its answer proves that it arrived. An answer to a ring in
// flight waits for that ring's outcome. Every other answer is refused, as stale_ring with the alarm or as unknown_ring.
//
// With delivery at_most_once no ring is published twice. The claim commits the alarm as rung and in doubt. Only a ring
// that certainly did not arrive (unsent, untaken, returned) makes the alarm scheduled again. After a nack, a refusal,
// an unknown outcome or the end of the process the alarm stays rung, with in_doubt set.
//
// # Layers
//
// A file refers only to files of its own layer and of lower layers. The highest layer comes first. layers_test.go
// checks the table.
//
//	service     all calls of applications: validate, submit, read
//	            service.go service_answer.go service_resend.go service_dead.go search.go repeating.go forecasts.go
//	writing     submitted ops, their queue, and the transactions that write them
//	            writer.go writerconfig.go writegroup.go writequeue.go appqueue.go lockedkeys.go lockslots.go pending.go await.go writewatch.go
//	background  the database's clock, copies of parts of the database, and the waits of background tasks
//	            changepoll.go timebase.go backoff.go signal.go
//	contracts   what the domain needs of stores, wake-ups, metrics and streams
//	            store.go forecast.go rules.go listener.go metrics.go dropreason.go stream.go quotakeeper.go
//	decisions   the effect of each op, and of each ring's outcome, on the row
//	            decide.go decide_answer.go decide_resend.go decide_dead.go decide_pause.go decide_trigger.go decide_backfill.go decide_shift.go decide_recompute.go decision.go fate.go occurrence.go
//	requests    what applications and people ask, and its validation
//	            op.go act.go event.go set.go cancel.go answer.go resend.go kick.go pause.go trigger.go backfill.go shift.go recompute.go condition.go defaults.go quota.go cursor.go traceparent.go
//	model       the alarm and its parts, rings and their outcomes, errors
//	            alarm.go content.go payloaddepth.go message.go key.go state.go ringrow.go progress.go ring.go outcome.go ringid.go answerkind.go deliverymode.go retry.go
//	            past.go instant.go limits.go errors.go jobrecord.go nodestep.go targetkind.go destination.go receiver.go blocker.go
//
// # Invariants
//
//  1. A generation only grows: by one with every change that a set, a shift or a trigger makes. Nothing else changes it.
//  2. A set that repeats the stored content changes nothing, unless the alarm is cancelled. A rung alarm rings again
//     only after a set with other content, a dead or expired alarm also after a kick, each of them also after a
//     trigger, a cancelled alarm only after a set. A resend sends a copy of the last ring.
//  3. Op.Decide and FateOf are pure functions: the effects of a request and of a ring's outcome on the row. They are
//     the same for every engine, and are tested without an engine.
//  4. ring_no counts the confirmed rings of the generation. A resend takes the confirmation of the last one back. A
//     message carries ring_no+1, so all copies of one ring have the same message id.
//  5. No instant comes from this process's clock. now is a parameter, taken from the Timebase: a lower bound of the
//     database's clock while both clocks keep time. A delay counts from an upper bound, so it is never shortened. A
//     claim compares its rows with the database's clock itself. Expiry uses Floor, a bound that also holds while chrony
//     slews the database's clock, this machine's clock or both by up to a twelfth.
//  6. Requests on one key take effect one by one, in the order of their arrival at this node (Writer). A dropped
//     request changes nothing. The request behind it takes effect as if the dropped request had not been made.
//  7. At most one ack, release or bury finishes a ring, and at most one ack finishes a generation. A refused answer
//     changes nothing. A release or a bury leaves an attempt, and so does an unacknowledged ring.
//  8. Answers, resends, kicks, discards, pauses, resumes, backfills and recomputations change neither the payload nor the
//     generation, so a later repeat of a set is judged as before. There is one exception: a kick removes a
//     latest_ring_at that has passed. An op with an Actor that changes its row is recorded in the audit, in the same
//     transaction (ActOn).
//  9. A paused alarm has no next_try_time, so no claim, no expiry pass and no purge takes it. Only a resume, a set, a
//     cancel, another pause, an end of its backfill, or an answer to its last ring changes it. No ring of it is in
//     flight or in doubt.
//
// # Failures, effects, recovery
//
//	database down             requests end in ErrUnavailable; nothing was written   the caller repeats
//	no reply to a COMMIT      ErrUnconfirmed: the change may be written or not      the caller repeats; a delay counts from the repeat
//	key locked by a ring      its requests wait apart from the others, at most 5 s; then ErrUnavailable. For a two-phase
//	                          claim they wait at most 10 s; then ErrConflict ring_in_doubt (an answer: ErrUnavailable)
//	answer's outcome unknown  a repeat is refused as stale_ring with the alarm and its last answer   the caller reads that
//	answer lost               the alarm rings again as the next ring_no, up to max_rings, then dead  a person kicks it
//	kick by filter cut short  the kicked alarms are scheduled, so a repeat does not kick them again  the caller repeats
//	writes keep failing       logged with the cause; Service.Writable returns it. A probe every second notices
//	                          when writes succeed again, without any request         a person
//	queue of writes full      the application with the most queued bytes gets ErrUnavailable with RetryAfter, for
//	                          its newest requests first; others find room           the caller repeats later
//	queue of writes slow      an application gets ErrUnavailable with RetryAfter for a set that would wait for more
//	                          than 4 s, and for any other request beyond 8 s         the caller repeats later
//	large stored payloads     a group loads at most WriterConfig.LoadBytes; the ops behind go into the next groups
//	many requests on one key  ErrUnavailable with RetryAfter beyond WriterConfig.KeyOps   the caller repeats later
//	caller leaves             its request is dropped from the queue of writes       nothing needs healing
//	rows stay locked          requests on them wait in LockedWrites transactions; applications take turns of a second
//	database clock slewed     rings are late by some milliseconds, never early      the next sample
//	database clock set back   one warning; rings by the clock as it is now          the next sample, within a second; until then
//	                          claims pass over rows that are not due by the clock as it is now
//	database clock unknown    ErrUnavailable: a delay could not be counted          the Timebase keeps sampling
package clock
