package client

import "context"

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
	r, failed := actRequest(alarmPath(application, businessID)+"/trigger", options)
	if failed != nil {
		return nil, failed
	}
	r.resend = true
	return c.alarm(ctx, r)
}
