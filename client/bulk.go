package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// BulkAction is what a job does to alarms.
type BulkAction string

// The actions.
const (
	BulkCancel  BulkAction = "cancel"
	BulkKick    BulkAction = "kick"
	BulkDiscard BulkAction = "discard"
	BulkPause   BulkAction = "pause"
	BulkResume  BulkAction = "resume"
	BulkShift   BulkAction = "shift"
)

// BulkFilter selects alarms of an application, and says what happens to them.
type BulkFilter struct {
	Application string
	Action      BulkAction
	States      []State       // empty: all states that the action may change
	Prefix      string        // first bytes of the business id
	DueAfter    time.Time     // earliest NextTryTime, inclusive; of paused alarms alone, RingAt
	DueBefore   time.Time     // upper bound of NextTryTime, exclusive
	Shift       time.Duration // with BulkShift: how much later the alarms ring; negative: earlier
	FrozenAt    time.Time     // BulkSelection.FrozenAt; zero: now
	Note        string        // the reason, at most 300 bytes; a paused alarm has it in LastError
	By          string        // name of the person or program; empty: the name of the token, or the address of the client
}

// BulkSelection is what a filter selects.
type BulkSelection struct {
	FrozenAt time.Time `json:"frozen_at"` // alarms that were created later are not selected
	Count    int       `json:"count"`
	Complete bool      `json:"complete"` // false: there may be more, because counting took too long
	Samples  []string  `json:"samples"`  // business ids of some of the alarms
}

// BulkJob is a change of many alarms.
type BulkJob struct {
	ID          string         `json:"id"`
	Status      string         `json:"status"` // waiting, running, done, stopped or failed
	Application string         `json:"application"`
	Action      BulkAction     `json:"action"`
	States      []State        `json:"state"`
	Prefix      string         `json:"prefix"`
	FrozenAt    time.Time      `json:"frozen_at"`
	By          string         `json:"by"`
	Note        string         `json:"note"`
	CreatedAt   time.Time      `json:"created_at"`
	EndedAt     time.Time      `json:"ended_at"` // zero: it has not ended
	Changed     int            `json:"changed"`  // alarms that it has changed
	Refused     map[string]int `json:"refused"`  // alarms that could not be changed, by the code of the refusal

	Raw json.RawMessage `json:"-"` // the job as the service wrote it
}

// UnmarshalJSON reads a job of the service.
func (j *BulkJob) UnmarshalJSON(b []byte) error {
	type fields BulkJob
	if err := json.Unmarshal(b, (*fields)(j)); err != nil {
		return err
	}
	j.Raw = append(json.RawMessage(nil), b...)
	return nil
}

const bulkPath = "/v1/bulk"

// CountBulk counts the alarms that a filter selects, and changes nothing.
func (c *Client) CountBulk(ctx context.Context, f BulkFilter) (*BulkSelection, error) {
	body, err := f.body(true)
	if err != nil {
		return nil, err
	}
	var s BulkSelection
	if err := c.call(ctx, &request{method: http.MethodPost, path: bulkPath, body: body, repeat: true}, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// StartBulk starts a job that changes the alarms that a filter selects. It is not repeated after a failure that leaves
// its outcome open.
func (c *Client) StartBulk(ctx context.Context, f BulkFilter) (*BulkJob, error) {
	body, err := f.body(false)
	if err != nil {
		return nil, err
	}
	return c.job(ctx, &request{method: http.MethodPost, path: bulkPath, body: body})
}

// Bulk reads a job.
func (c *Client) Bulk(ctx context.Context, id string) (*BulkJob, error) {
	return c.job(ctx, &request{method: http.MethodGet, path: bulkPath + "/" + url.PathEscape(id), repeat: true})
}

// StopBulk stops a job. Alarms that it has changed stay changed.
func (c *Client) StopBulk(ctx context.Context, id string) (*BulkJob, error) {
	return c.job(ctx,
		&request{method: http.MethodPost, path: bulkPath + "/" + url.PathEscape(id) + "/stop", repeat: true})
}

// BulkJobs reads the newest jobs, the newest first: those of an application, or with "" of all.
func (c *Client) BulkJobs(ctx context.Context, application string) ([]*BulkJob, error) {
	q := newQuery()
	q.text("application", application)
	list, err := read[struct {
		Jobs []*BulkJob `json:"jobs"`
	}](ctx, c, q.of(bulkPath))
	if err != nil {
		return nil, err
	}
	return list.Jobs, nil
}

func (c *Client) job(ctx context.Context, r *request) (*BulkJob, error) {
	var j BulkJob
	if err := c.call(ctx, r, &j); err != nil {
		return nil, err
	}
	return &j, nil
}

// body returns the filter as the body of a request.
func (f *BulkFilter) body(dryRun bool) ([]byte, error) {
	given := struct {
		Application string     `json:"application"`
		Action      BulkAction `json:"action"`
		States      []State    `json:"state,omitempty"`
		Prefix      string     `json:"prefix,omitempty"`
		DueAfter    *instant   `json:"due_after,omitempty"`
		DueBefore   *instant   `json:"due_before,omitempty"`
		Shift       string     `json:"shift,omitempty"`
		FrozenAt    *instant   `json:"frozen_at,omitempty"`
		By          string     `json:"by,omitempty"`
		Note        string     `json:"note,omitempty"`
		DryRun      bool       `json:"dry_run,omitempty"`
	}{
		Application: f.Application, Action: f.Action, States: f.States, Prefix: f.Prefix,
		DueAfter: optionalInstant(f.DueAfter), DueBefore: optionalInstant(f.DueBefore),
		FrozenAt: optionalInstant(f.FrozenAt), By: f.By, Note: f.Note, DryRun: dryRun,
	}
	if f.Shift != 0 {
		given.Shift = f.Shift.String()
	}
	return json.Marshal(&given)
}

// optionalInstant returns nil for the zero time.
func optionalInstant(t time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	i := instant(t)
	return &i
}
