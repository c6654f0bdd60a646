package client

import (
	"context"
	"net/http"
)

// Cancel cancels an alarm, and returns it. An alarm that was cancelled before is no error. If it is too late, the error
// has the code CodeAlreadyRung, CodeAlreadyExpired, CodeAlreadyDead or CodeRingInDoubt, and the alarm. The condition
// may be AtGeneration.
func (c *Client) Cancel(ctx context.Context, application, businessID string, condition ...Condition) (*Alarm, error) {
	header, failed := onlyGeneration(condition)
	if failed != nil {
		return nil, failed
	}
	return c.alarm(ctx,
		&request{method: http.MethodDelete, path: alarmPath(application, businessID), header: header, repeat: true})
}

// Get reads an alarm with its failed attempts.
func (c *Client) Get(ctx context.Context, application, businessID string) (*Alarm, error) {
	return c.alarm(ctx, &request{method: http.MethodGet, path: alarmPath(application, businessID), repeat: true})
}
