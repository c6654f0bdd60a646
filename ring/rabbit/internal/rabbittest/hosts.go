package rabbittest

import (
	"net/url"
	"strings"
	"testing"
)

// WithHosts returns the URL with these hosts.
func WithHosts(tb testing.TB, raw string, hosts ...string) string {
	tb.Helper()
	return strings.Replace(raw, HostOf(tb, raw), strings.Join(hosts, ","), 1)
}

// HostOf returns host and port of a URL with one host.
func HostOf(tb testing.TB, raw string) string {
	tb.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return u.Host
}
