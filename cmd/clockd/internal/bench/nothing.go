package bench

import (
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
)

// Nothing answers sets and cancels as the service does with a new alarm, at once, and stores nothing: the ceiling of single
// requests. Nothing else may be asked of it.
type Nothing struct{ clockhttp.Alarms }

// Submit validates and decides, that is all.
func (Nothing) Submit(op clock.Op) *clock.Pending {
	now := clock.InstantOf(time.Now())
	if op.Set == nil {
		return clock.Answered(op, op.Decide(scheduled(op.Key(), now), now))
	}
	if err := op.Set.Validate(clock.DefaultMaxPayload); err != nil {
		return clock.Answered(op, clock.Decision{Verdict: clock.Refuse, Err: err})
	}
	return clock.Answered(op, op.Decide(nil, now))
}

// MaxPayload returns what it is by default.
func (Nothing) MaxPayload() int { return clock.DefaultMaxPayload }

// scheduled returns the alarm that a cancel finds.
func scheduled(key clock.Key, now clock.Instant) *clock.Alarm {
	set := clock.Set{Key: key, Content: clock.Content{
		RingAt: now.Add(time.Hour), LatestRingAt: clock.NoInstant, Payload: barePayload, PayloadKind: clock.JSON, ContentType: contentType,
	}}
	d := clock.Op{Set: &set}.Decide(nil, now)
	return &d.Alarm
}
