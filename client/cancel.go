package client

import (
	"context"
	"net/http"
)

// Cancel cancels an alarm, and returns it. An alarm that was cancelled before is no error. If it is too late, the error
// has the code CodeAlreadyRung, CodeAlreadyExpired, CodeAlreadyDead or CodeRingInDoubt, and the alarm. With a Note it
// is the act of a person, which the audit and the events of the alarm have.
func (c *Client) Cancel(ctx context.Context, application, businessID string, options ...ActOption) (*Alarm, error) {
	asked := actOptionsOf(options)
	if asked.note != "" {
		return c.act(ctx, alarmPath(application, businessID)+"/cancel", options)
	}
	header, failed := onlyGeneration(asked.conditions)
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
