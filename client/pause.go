package client

import (
	"context"
	"time"
)

// Pause keeps an alarm from ringing until it is resumed, and returns it. A paused alarm is no error. If it is too late,
// the error has the code CodeAlreadyRung, CodeAlreadyExpired, CodeAlreadyDead, CodeAlreadyCancelled or CodeRingInDoubt,
// and the alarm.
func (c *Client) Pause(ctx context.Context, application, businessID string, options ...ActOption) (*Alarm, error) {
	return c.act(ctx, alarmPath(application, businessID)+"/pause", options)
}

// Resume schedules a paused alarm again, at its RingAt or at once. An alarm that is not paused stays as it is; if it is
// over, the error has one of the codes of Pause.
func (c *Client) Resume(ctx context.Context, application, businessID string, options ...ActOption) (*Alarm, error) {
	return c.act(ctx, alarmPath(application, businessID)+"/resume", options)
}

// Trigger rings an alarm once, now, and returns it. An alarm that rings once is set again, to now, with the next
// generation, also if it is over. A repeating alarm rings besides its occurrences. If no ring may start, the error has
// the code CodePaused, CodeAlreadyCancelled, CodeAlreadyRung, CodeAlreadyExpired, CodeAlreadyDead or CodeRingInDoubt, and
// the alarm. After an error with Unconfirmed the alarm may be triggered, and another call may ring it again.
func (c *Client) Trigger(ctx context.Context, application, businessID string, options ...ActOption) (*Alarm, error) {
	return c.actOnce(ctx, alarmPath(application, businessID)+"/trigger", map[string]any{}, options)
}

// BackfillRange is a range of the past for whose occurrences a repeating alarm rings.
type BackfillRange struct {
	From  time.Time // inclusive
	Until time.Time // inclusive; zero, or in the future: now
	// Limit is the most occurrences, at most 10000. A range with more is refused. 0: the rule's MissedLimit, or 100.
	Limit int
	Pace  *time.Duration // from the end of a ring until the next one may begin, at most 24 h; nil: 1 s
}

// Backfill rings a repeating alarm once for each occurrence of a range, in order, whether it rang for them before or
// not, and returns the alarm. The rings come besides its occurrences; they have the times of their occurrences, but no
// numbers. Occurrence.Backfill shows how far they have come. If nothing may begin, the error has the code
// CodeBackfillRuns, CodeRingsOnce or a code of Trigger, and the alarm. After an error with Unconfirmed the backfill may
// have begun.
func (c *Client) Backfill(
	ctx context.Context, application, businessID string, rings BackfillRange, options ...ActOption,
) (*Alarm, error) {
	members := map[string]any{"from": instant(rings.From)}
	if !rings.Until.IsZero() {
		members["until"] = instant(rings.Until)
	}
	if rings.Limit != 0 {
		members["limit"] = rings.Limit
	}
	if rings.Pace != nil {
		members["pace"] = duration(*rings.Pace)
	}
	return c.actOnce(ctx, alarmPath(application, businessID)+"/backfill", members, options)
}

// EndBackfill lets no further ring of a backfill begin, and returns the alarm. A ring that waits for its acknowledgement
// goes on, as the last one. An alarm without a backfill is no error.
func (c *Client) EndBackfill(ctx context.Context, application, businessID string, options ...ActOption) (*Alarm, error) {
	return c.act(ctx, alarmPath(application, businessID)+"/end-backfill", options)
}
