package clockhttp

import (
	"cmp"
	"strconv"
	"time"

	"github.com/clockd/clockd/clock"
)

// appendAlarm appends the alarm as JSON: instants in RFC 3339, null for missing values, the payload as it was given.
func appendAlarm(b []byte, a *clock.Alarm) []byte {
	b = appendAlarmMembers(b, a)
	return append(b, '}')
}

// appendBlockedAlarm is appendAlarm with the reasons why the alarm does not ring.
func appendBlockedAlarm(b []byte, a *clock.Alarm, blockers []clock.Blocker) []byte {
	return append(appendBlockers(appendAlarmMembers(b, a), blockers), '}')
}

// appendAlarmWithAttempts is appendBlockedAlarm with the failed attempts, newest first.
func appendAlarmWithAttempts(b []byte, a *clock.Alarm, blockers []clock.Blocker) []byte {
	b = appendBlockers(appendAlarmMembers(b, a), blockers)
	b = append(b, `,"attempts":[`...)
	for i := range a.Attempts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendAttempt(b, &a.Attempts[i])
	}
	return append(b, "]}"...)
}

// appendAlarmMembers appends the members of the object without its closing brace.
func appendAlarmMembers(b []byte, a *clock.Alarm) []byte {
	b = append(b, `{"application":`...)
	b = appendString(b, a.Application)
	b = append(b, `,"business_id":`...)
	b = appendString(b, a.BusinessID)
	b = append(b, `,"state":"`...)
	b = append(b, a.State.String()...)
	b = append(b, `","generation":`...)
	b = strconv.AppendInt(b, a.Generation, 10)
	b = appendInstant(append(b, `,"ring_at":`...), a.NextRingAt())
	b = appendInstant(append(b, `,"latest_ring_at":`...), a.Latest())
	b = appendInstant(append(b, `,"next_try_time":`...), a.NextTryTime)
	b = append(b, `,"retry_times":`...)
	b = strconv.AppendInt(b, int64(a.RetryTimes), 10)
	b = append(b, `,"ring_no":`...)
	b = strconv.AppendInt(b, int64(a.RingNo), 10)
	b = append(b, `,"in_doubt":`...)
	b = strconv.AppendBool(b, a.InDoubt)
	b = appendOptional(append(b, `,"last_error":`...), a.LastError)
	b = append(b, `,"content_type":`...)
	b = appendString(b, a.ContentType)
	b = appendPayload(b, a.PayloadKind, a.Payload)
	b = appendOptions(b, a)
	b = appendRepeat(b, a)
	b = appendInstant(append(b, `,"rung_at":`...), a.RungAt)
	b = appendAnswer(b, a)
	b = appendInstant(append(b, `,"created_at":`...), a.CreateTime)
	b = appendInstant(append(b, `,"updated_at":`...), a.UpdateTime)
	return appendInstant(append(b, `,"finished_at":`...), a.FinishedAt)
}

func appendOptions(b []byte, a *clock.Alarm) []byte {
	b = appendRetry(append(b, `,"retry":`...), a.Retry)
	b = appendAckTimeout(append(b, `,"ack_timeout":`...), a.AckTimeout)
	b = append(b, `,"max_rings":`...)
	b = strconv.AppendInt(b, int64(a.MaxRings), 10)
	b = append(b, `,"priority":`...)
	b = strconv.AppendInt(b, int64(a.Priority), 10)
	b = append(b, `,"delivery":"`...)
	b = append(b, a.Delivery.String()...)
	b = appendOptional(append(b, `","target":`...), clock.TargetText(a.Target, a.Destination.Name))
	b = append(append(b, `,"receiver":`...), cmp.Or(string(a.ShownReceiver()), "null")...)
	return appendOptional(append(b, `,"traceparent":`...), a.Traceparent)
}

func appendRetry(b []byte, p clock.RetryPolicy) []byte {
	b = append(b, `{"initial":`...)
	b = appendDuration(b, p.Initial)
	b = append(b, `,"factor":`...)
	b = strconv.AppendFloat(b, p.Factor, 'g', -1, 64)
	b = append(b, `,"cap":`...)
	b = appendDuration(b, p.Cap)
	b = append(b, `,"limit":`...)
	if p.Limit == clock.NoLimit {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(p.Limit), 10)
	}
	return append(b, '}')
}

// appendAckTimeout appends an ack_timeout, null for none.
func appendAckTimeout(b []byte, d time.Duration) []byte {
	if d == 0 {
		return append(b, "null"...)
	}
	return appendDuration(b, d)
}

func appendAttempt(b []byte, t *clock.Attempt) []byte {
	b = append(b, `{"generation":`...)
	b = strconv.AppendInt(b, t.Generation, 10)
	b = append(b, `,"ring_no":`...)
	b = strconv.AppendInt(b, int64(t.RingNo), 10)
	b = append(b, `,"claim_id":`...)
	b = appendString(b, t.ClaimID)
	b = appendInstant(append(b, `,"time":`...), t.Time)
	b = append(b, `,"outcome":"`...)
	b = append(b, t.Outcome.String()...)
	b = appendOptional(append(b, `","error":`...), t.Error)
	b = appendOptional(append(b, `,"by":`...), t.By)
	return append(b, '}')
}

// appendAnswer appends the members for the last accepted answer. They are null when no answer was accepted.
func appendAnswer(b []byte, a *clock.Alarm) []byte {
	if a.Answer == clock.NoAnswer {
		return append(b, `,"answer":null,"answered_by":null,"answered_at":null`...)
	}
	b = appendString(append(b, `,"answer":`...), a.Answer.String())
	b = appendOptional(append(b, `,"answered_by":`...), a.AnsweredBy)
	return appendInstant(append(b, `,"answered_at":`...), a.AnsweredAt)
}

// appendInstant appends i as RFC 3339 in UTC with milliseconds, null for NoInstant.
func appendInstant(b []byte, i clock.Instant) []byte {
	if i == clock.NoInstant {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = i.Time().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	return append(b, '"')
}

// appendDuration appends d as a JSON string in the form that a set accepts: "1h30m", "250ms".
func appendDuration(b []byte, d time.Duration) []byte {
	return append(clock.AppendDuration(append(b, '"'), d), '"')
}

// appendOptional appends s as a JSON string, or null for the empty string.
func appendOptional(b []byte, s string) []byte {
	if s == "" {
		return append(b, "null"...)
	}
	return appendString(b, s)
}
