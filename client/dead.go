package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// Kick schedules a dead or expired alarm again: it is due at once and has all its tries.
func (c *Client) Kick(ctx context.Context, application, businessID string, options ...ActOption) (*Alarm, error) {
	return c.act(ctx, alarmPath(application, businessID)+"/kick", options)
}

// Discard cancels a dead or expired alarm.
func (c *Client) Discard(ctx context.Context, application, businessID string, options ...ActOption) (*Alarm, error) {
	return c.act(ctx, alarmPath(application, businessID)+"/discard", options)
}

// act calls an action on one alarm. A repeat of the request has no further effect.
func (c *Client) act(ctx context.Context, path string, options []ActOption) (*Alarm, error) {
	return c.actWith(ctx, &request{path: path, repeat: true}, map[string]any{}, options)
}

// actOnce calls an action on one alarm. A repeat of the request may have a further effect. members is the body, without
// the note.
func (c *Client) actOnce(ctx context.Context, path string, members map[string]any, options []ActOption) (*Alarm, error) {
	return c.actWith(ctx, &request{path: path, resend: true}, members, options)
}

func (c *Client) actWith(
	ctx context.Context, r *request, members map[string]any, options []ActOption,
) (*Alarm, error) {
	asked := actOptionsOf(options)
	header, failed := onlyGeneration(asked.conditions)
	if failed != nil {
		return nil, failed
	}
	r.method, r.header = http.MethodPost, header
	if asked.note != "" {
		members["note"] = asked.note
	}
	if len(members) > 0 {
		body, err := json.Marshal(members)
		if err != nil {
			return nil, invalid("", err.Error())
		}
		r.body = body
	}
	return c.alarm(ctx, r)
}

// DeadFilter selects dead and expired alarms of an application.
type DeadFilter struct {
	States []State // Dead, Expired or both; empty: both
	Prefix string  // first bytes of the business id
	Limit  int     // most alarms, 1 to 10,000; 0: 1000
	Cursor string  // Cursor of the result before
}

// DeadResult is the result of KickAll and DiscardAll.
type DeadResult struct {
	Changed int    // alarms that were kicked or discarded
	Failed  int    // alarms that another request changed first
	Cursor  string // continues with the same filter; empty: no alarm is left
}

// MaxDeadLimit is the most alarms of one DeadFilter.
const MaxDeadLimit = 10_000

// KickAll kicks the alarms that the filter selects, in the order of their business ids.
func (c *Client) KickAll(ctx context.Context, application string, f DeadFilter) (DeadResult, error) {
	return c.onAllDead(ctx, applicationPath(application)+"/kick", &f)
}

// DiscardAll discards the alarms that the filter selects, in the order of their business ids.
func (c *Client) DiscardAll(ctx context.Context, application string, f DeadFilter) (DeadResult, error) {
	return c.onAllDead(ctx, applicationPath(application)+"/discard", &f)
}

func (c *Client) onAllDead(ctx context.Context, path string, f *DeadFilter) (DeadResult, error) {
	body, err := json.Marshal(struct {
		State  []State `json:"state,omitempty"`
		Prefix string  `json:"prefix,omitempty"`
		Limit  int     `json:"limit,omitempty"`
		Cursor string  `json:"cursor,omitempty"`
	}{f.States, f.Prefix, f.Limit, f.Cursor})
	if err != nil {
		return DeadResult{}, err
	}
	var r struct {
		Kicked, Discarded, Failed int
		Cursor                    string
	}
	if err := c.call(ctx, &request{method: http.MethodPost, path: path, body: body, repeat: true}, &r); err != nil {
		return DeadResult{}, err
	}
	return DeadResult{Changed: r.Kicked + r.Discarded, Failed: r.Failed, Cursor: r.Cursor}, nil
}
