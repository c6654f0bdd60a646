package client

import (
	"context"
	"encoding/json"
	"time"
)

// Act is an entry of the audit: what a person or a program did.
type Act struct {
	ID          int64           `json:"id"`
	At          time.Time       `json:"at"`
	Actor       string          `json:"actor"`       // name of the token, or of the person who ran a command; empty: anyone
	Token       string          `json:"token"`       // id of the token; empty: none
	From        string          `json:"from"`        // address of the client; empty: a command on the database
	RequestID   string          `json:"request_id"`  // of the first request if there are several; empty: none
	Action      string          `json:"action"`      // pause, settings, token_create, denied, login and so on
	Application string          `json:"application"` // empty: none
	Subject     string          `json:"subject"`     // business id, or id of a token; empty: the application itself
	Before      json.RawMessage `json:"before"`      // what has changed; null: there was nothing
	After       json.RawMessage `json:"after"`

	Raw json.RawMessage `json:"-"` // the act as the service wrote it
}

// UnmarshalJSON reads an act of the service.
func (a *Act) UnmarshalJSON(b []byte) error {
	type fields Act
	if err := json.Unmarshal(b, (*fields)(a)); err != nil {
		return err
	}
	a.Raw = append(json.RawMessage(nil), b...)
	return nil
}

// ActFilter selects a page of the audit. The zero value selects the newest acts. With Actor or Action a page has the
// matches among 1,000 acts, so it may be short, or empty, and have a cursor.
type ActFilter struct {
	Application string // only acts on this application; empty: all
	Subject     string // with Application: only acts on this business id, or other subject; empty: on all
	Actor       string // only acts of this token or person; empty: of all
	Action      string // only acts with this action, such as cancel; empty: all
	Limit       int    // most acts, 1 to 1000; 0: 100
	Cursor      string // NextCursor of the page before
}

// ActPage is a part of the audit.
type ActPage struct {
	Acts       []*Act `json:"acts"`        // the newest first
	NextCursor string `json:"next_cursor"` // cursor of the next page; empty: this is the last page
}

// Audit reads a page of the audit, which needs a token of the role admin.
func (c *Client) Audit(ctx context.Context, f ActFilter) (*ActPage, error) {
	q := newQuery()
	q.text("application", f.Application)
	q.text("subject", f.Subject)
	q.text("actor", f.Actor)
	q.text("action", f.Action)
	q.number("limit", f.Limit)
	q.text("cursor", f.Cursor)
	return read[ActPage](ctx, c, q.of("/v1/audit"))
}
