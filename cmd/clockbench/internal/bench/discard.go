package bench

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
)

// Discard is a clockhttp.Alarms that stores nothing. It decides sets and cancels at once, as the service decides them
// for a new alarm and for a scheduled alarm. It is the ceiling of single requests. Its other methods must not be
// called.
type Discard struct{ clockhttp.Alarms }

// Submit validates and decides the op.
func (Discard) Submit(_ context.Context, op clock.Op) *clock.Pending {
	now := clock.InstantOf(time.Now())
	if op.Set == nil {
		return clock.Decided(op, op.Decide(scheduled(op.Key(), now), now))
	}
	if err := op.Set.Validate(clock.DefaultMaxPayload); err != nil {
		return clock.Decided(op, clock.Decision{Verdict: clock.Refuse, Err: err})
	}
	return clock.Decided(op, op.Decide(nil, now))
}

// MaxPayload returns the default limit.
func (Discard) MaxPayload() int { return clock.DefaultMaxPayload }

// scheduled returns the alarm that every cancel finds.
func scheduled(key clock.Key, now clock.Instant) *clock.Alarm {
	set := clock.Set{Key: key, Content: clock.Content{
		RingAt: now.Add(time.Hour), LatestRingAt: clock.NoInstant, Payload: barePayload, PayloadKind: clock.JSON,
		ContentType: contentType,
	}}
	d := clock.Op{Set: &set}.Decide(nil, now)
	return &d.Alarm
}
