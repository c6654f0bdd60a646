package client

import "context"

// SearchQuery asks for alarms by a text.
type SearchQuery struct {
	Text        string // a business id, a message id, or with Application the first bytes of a business id
	Application string // only alarms of this application; empty: of all applications
	Limit       int    // most alarms, 1 to 100; 0: 20
}

// SearchResult has the alarms of a search.
type SearchResult struct {
	Alarms []*Alarm `json:"alarms"`
	More   bool     `json:"more"` // further alarms were found
}

// Search finds the alarm of a ring by its message id, and the alarms of all applications whose business id is the text.
// With an application it finds only alarms of that application, and also those whose business id begins with the text.
func (c *Client) Search(ctx context.Context, s SearchQuery) (*SearchResult, error) {
	q := newQuery()
	q.Set("q", s.Text)
	q.text("application", s.Application)
	q.number("limit", s.Limit)
	return read[SearchResult](ctx, c, q.of("/v1/search"))
}
