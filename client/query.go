package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// query is the query of a request. Empty and zero values are left out.
type query struct{ url.Values }

func newQuery() query { return query{url.Values{}} }

func (q query) text(name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}

func (q query) number(name string, value int) {
	if value != 0 {
		q.Set(name, strconv.Itoa(value))
	}
}

// of returns the path with the query, if there is one.
func (q query) of(path string) string {
	if len(q.Values) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// read sends a request that changes nothing, and returns what the response holds.
func read[T any](ctx context.Context, c *Client, path string) (*T, error) {
	var out T
	if err := c.call(ctx, &request{method: http.MethodGet, path: path, repeat: true}, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
