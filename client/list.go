package client

import (
	"context"
	"iter"
	"strings"
	"time"
)

// Filter selects alarms of an application. The zero value selects all. Of paused alarms alone (States), RingAt counts in
// place of NextTryTime, and the list is by business id.
type Filter struct {
	States    []State
	DueAfter  time.Time // earliest NextTryTime, inclusive
	DueBefore time.Time // upper bound of NextTryTime, exclusive
	Prefix    string    // first bytes of the business id
	Limit     int       // most alarms: of List in all (0: no limit), of Page 1 to 1000 (0: 100)
	Cursor    string    // NextCursor of the page before
}

// Page is a part of a list.
type Page struct {
	Alarms     []*Alarm `json:"alarms"`      // in the order of the list; may be fewer than the limit, or none although more follow
	NextCursor string   `json:"next_cursor"` // cursor of the next page; empty: this is the last page
}

// maxPage is the most alarms of a page.
const maxPage = 1000

// Page reads one page of a list.
func (c *Client) Page(ctx context.Context, application string, f Filter) (*Page, error) {
	return read[Page](ctx, c, f.query().of(alarmsPath(application)))
}

// RepeatingPage reads one page of the repeating alarms of an application; empty: of all applications.
func (c *Client) RepeatingPage(ctx context.Context, application string, f Filter) (*Page, error) {
	q := f.query()
	q.text("application", application)
	return read[Page](ctx, c, q.of("/v1/repeating"))
}

// List reads alarms page by page, in the bytewise order of their business ids, or with a due range in the order of
// their due times. An error ends the list.
func (c *Client) List(ctx context.Context, application string, f Filter) iter.Seq2[*Alarm, error] {
	return pages(ctx, application, f, c.Page)
}

// Repeating reads the repeating alarms of an application page by page; empty: of all applications. They come in the
// bytewise order of application and business id, also with a due range. An error ends the list.
func (c *Client) Repeating(ctx context.Context, application string, f Filter) iter.Seq2[*Alarm, error] {
	return pages(ctx, application, f, c.RepeatingPage)
}

// pages reads alarms with a function that reads a page.
func pages(
	ctx context.Context, application string, f Filter, page func(context.Context, string, Filter) (*Page, error),
) iter.Seq2[*Alarm, error] {
	return func(yield func(*Alarm, error) bool) {
		left := f.Limit
		for {
			f.Limit = maxPage
			if left > 0 {
				f.Limit = min(left, maxPage)
			}
			p, err := page(ctx, application, f)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, a := range p.Alarms {
				if !yield(a, nil) {
					return
				}
			}
			if left > 0 {
				if left -= len(p.Alarms); left <= 0 {
					return
				}
			}
			if p.NextCursor == "" {
				return
			}
			f.Cursor = p.NextCursor
		}
	}
}

// query returns the filter as a query.
func (f *Filter) query() query {
	q := newQuery()
	states := make([]string, len(f.States))
	for i, s := range f.States {
		states[i] = string(s)
	}
	q.text("state", strings.Join(states, ","))
	q.text("due_after", queryInstant(f.DueAfter))
	q.text("due_before", queryInstant(f.DueBefore))
	q.text("prefix", f.Prefix)
	q.text("cursor", f.Cursor)
	q.number("limit", f.Limit)
	return q
}

func queryInstant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	b, _ := instant(t).MarshalJSON() // a number always encodes
	return string(b)
}
