package client

import "context"

// Pause keeps an alarm from ringing until it is resumed, and returns it. A paused alarm is no error. If it is too late,
// the error has the code CodeAlreadyRung, CodeAlreadyExpired, CodeAlreadyDead, CodeAlreadyCancelled or CodeRingInDoubt,
// and the alarm. The condition may be AtGeneration.
func (c *Client) Pause(ctx context.Context, application, businessID string, condition ...Condition) (*Alarm, error) {
	return c.act(ctx, alarmPath(application, businessID)+"/pause", condition)
}

// Resume schedules a paused alarm again, at its RingAt or at once. An alarm that is not paused stays as it is; if it is
// over, the error has one of the codes of Pause. The condition may be AtGeneration.
func (c *Client) Resume(ctx context.Context, application, businessID string, condition ...Condition) (*Alarm, error) {
	return c.act(ctx, alarmPath(application, businessID)+"/resume", condition)
}
