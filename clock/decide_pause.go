package clock

import "cmp"

// pauseReason returns who pauses an alarm and why, "" if neither is known.
func (o Op) pauseReason() string {
	by, why := o.Pause.By, ""
	if o.Actor != nil {
		by = o.Actor.Name
	}
	if by != "" {
		by = " by " + by
	}
	if o.Note != "" {
		why = ": " + o.Note
	}
	if by+why == "" {
		return ""
	}
	return bounded(pausedPrefix + by + why)
}

// decidePause judges a pause. A scheduled alarm becomes paused, without a next_try_time: no claim takes it, and no time
// ends it. The counts of its tries and rings stay. Its last_error becomes the reason, if there is one, also if it was
// paused before.
//
// A pause is refused wherever a ring may have arrived, as a cancel is: while a ring is in doubt, and while the only ring
// of an alarm waits for its acknowledgement. A released alarm is scheduled and can be paused. The occurrence of a
// repeating alarm that waits for its acknowledgement can still be answered (Progress.UnansweredUntil).
func decidePause(row *Alarm, pause *Pause, reason string, now Instant) Decision {
	switch d, refused := refusePauseOrResume(row, pause.Key, pause.If); {
	case refused:
		return d
	case row.State == Paused && (reason == "" || reason == row.pauseReason()):
		return Decision{Verdict: Keep, Alarm: *row}
	}
	if d, done := decideStop(row); done {
		return d
	}
	alarm := *row
	if alarm.UpdateTime = now; row.State != Paused {
		alarm.pause(now)
	}
	alarm.LastError = cmp.Or(reason, alarm.LastError)
	return Decision{Verdict: Amend, Alarm: alarm}
}

// decideResume judges a resume. A paused alarm is scheduled at its ring_at, or at once if that has passed. It is due at
// once too if it waited for a further try or for the end of a release's delay, because a paused alarm keeps no other
// time than ring_at. Its retries count on. The ring_at of a repeating alarm is the time of its current occurrence.
// Occurrences that came due during the pause are missed, and its rule counts failed occurrences from 0 again. A ring
// that still waits for its acknowledgement has the rest of its time. If its latest_ring_at has passed, the next claim
// ends it as expired. An alarm that is not paused, and not over, is kept as it is.
func decideResume(row *Alarm, resume *Resume, now Instant) Decision {
	switch d, refused := refusePauseOrResume(row, resume.Key, resume.If); {
	case refused:
		return d
	case row.State != Paused:
		return Decision{Verdict: Keep, Alarm: *row}
	}
	alarm := *row
	alarm.State, alarm.NextTryTime, alarm.UpdateTime = Scheduled, max(alarm.NextRingAt(), now), now
	switch {
	case row.Progress.UnansweredUntil != 0:
		alarm.State, alarm.NextTryTime = Ringing, max(Instant(row.Progress.UnansweredUntil), now)
		alarm.Progress.UnansweredUntil = 0
	case row.Repeat != nil:
		alarm.Repetition().await(&alarm.RingRow, now)
	}
	if alarm.pauseReason() != "" {
		alarm.LastError = ""
	}
	alarm.Progress.FailedInRow = 0
	return Decision{Verdict: Amend, Alarm: alarm}
}

// refusePauseOrResume refuses both for an alarm that does not exist, has another generation or is over.
func refusePauseOrResume(row *Alarm, key Key, condition Condition) (d Decision, refused bool) {
	switch d, refused := refuseUnmet(row, key, condition); {
	case refused:
		return d, true
	case row.State == Cancelled:
		return refuse(row, ErrConflict, CodeAlreadyCancelled, "the alarm is cancelled"), true
	case row.State.Over():
		return refuseOver(row), true
	}
	return Decision{}, false
}
