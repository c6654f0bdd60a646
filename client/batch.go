package client

import (
	"context"
	"net/http"
	"slices"
	"unicode/utf8"
)

// Change is one change of a batch or of a stream of changes: a set, or a cancel.
type Change struct {
	BusinessID string
	Set        *Set // nil: the change is a cancel
}

// Result is the result of one change.
type Result struct {
	BusinessID  string `json:"business_id"`
	Status      int    `json:"status"`       // status that the single call would have had
	Generation  int64  `json:"generation"`   // generation of the alarm afterwards; 0 after a refusal without an alarm
	State       State  `json:"state"`        // state of the alarm afterwards
	RepeatEnded bool   `json:"repeat_ended"` // the alarm repeated before the change, a set without a rule, and rings once now
	Code        string `json:"code"`         // name of the failure; empty: none
	Field       string `json:"field"`        // wrong part of the input
	Detail      string `json:"detail"`       // text for people
	Line        int64  `json:"line"`         // number of the change, from 1; only of Apply
}

// Err returns the failure of the change as an *Error, or nil.
func (r *Result) Err() error {
	if r.Status < http.StatusMultipleChoices {
		return nil
	}
	return &Error{
		Status: r.Status, Code: r.Code, Field: r.Field, Detail: r.Detail,
		Unconfirmed: mayHaveChanged(r.Status) && r.Code != CodeUnavailable && r.Code != CodeOverloaded &&
			r.Code != CodeKeyOverloaded,
	}
}

// Batch makes up to 1000 changes (8 MiB) with one request: first the sets, then the cancels, each kind in the order
// given. It is not atomic. It returns one result for each set and then for each cancel. If any change fails for the
// service's reasons, the whole call fails, and may be repeated.
func (c *Client) Batch(ctx context.Context, application string, changes []Change) ([]Result, error) {
	var b batchBody
	for i := range changes {
		if failed := b.add(&changes[i]); failed != nil {
			return nil, failed
		}
	}
	var r struct {
		Results []Result `json:"results"`
	}
	err := c.call(ctx,
		&request{method: http.MethodPost, path: alarmsPath(application), body: b.encode(), repeat: !b.moves}, &r)
	return r.Results, err
}

// batchBody collects the changes of a batch.
type batchBody struct {
	sets    []byte   // sets as JSON, separated by commas
	cancels []string // business ids
	moves   bool     // whether a repeat of the batch would move an alarm
}

func (b *batchBody) add(change *Change) *Error {
	if failed := change.check(); failed != nil {
		return failed
	}
	if change.Set == nil {
		b.cancels = append(b.cancels, change.BusinessID)
		return nil
	}
	set, failed := change.Set.encode(change.BusinessID)
	if failed != nil {
		return failed
	}
	if len(b.sets) > 0 {
		b.sets = append(b.sets, ',')
	}
	b.sets = append(b.sets, set...)
	b.moves = b.moves || !change.Set.repeatable()
	return nil
}

// encode returns the batch as JSON. encoding/json would change the layout of the payloads.
func (b *batchBody) encode() []byte {
	body := slices.Concat([]byte(`{"set":[`), b.sets, []byte(`],"cancel":[`))
	for i, id := range b.cancels {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendQuoted(body, id)
	}
	return append(body, `]}`...)
}

// check returns the fault of the change, or nil. encoding/json would replace wrong UTF-8, and so name another alarm.
func (c *Change) check() *Error {
	switch {
	case c.BusinessID == "":
		return &Error{Code: "required", Field: "business_id", Detail: "give the alarm's business_id"}
	case !utf8.ValidString(c.BusinessID):
		return &Error{Code: "invalid_business_id", Field: "business_id", Detail: "the business_id is not UTF-8"}
	case c.Set != nil && c.Set.If.onGeneration:
		return invalid("if", "AtGeneration is a condition of single calls only")
	}
	return nil
}
