package storetest

import (
	"net/url"
	"testing"
)

// ServerAddress returns the host and port of a database's URL.
func ServerAddress(tb testing.TB, databaseURL string) string {
	tb.Helper()
	return parseURL(tb, databaseURL).Host
}

// WithAddress returns the URL with another host and port.
func WithAddress(tb testing.TB, databaseURL, address string) string {
	tb.Helper()
	u := parseURL(tb, databaseURL)
	u.Host = address
	return u.String()
}

func parseURL(tb testing.TB, s string) *url.URL {
	tb.Helper()
	u, err := url.Parse(s)
	if err != nil {
		tb.Fatalf("parse the URL of the database: %v", err)
	}
	return u
}
