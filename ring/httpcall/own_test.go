package httpcall

import (
	"maps"
	"net/url"
	"strings"
	"testing"
)

func TestPatternsOfURLs(t *testing.T) {
	for _, c := range []struct {
		pattern, url string
		matches      bool
	}{
		{"https://shop.example/jobs/*", "https://shop.example/jobs/17?x=1", true},
		{"https://shop.example/jobs/*", "https://SHOP.example/jobs/", true},
		{"https://shop.example/jobs/*", "https://shop.example/job", false},
		{"https://shop.example/jobs/*", "http://shop.example/jobs/1", false},
		{"https://shop.example/jobs/*", "https://shop.example:8443/jobs/1", false},
		{"https://shop.example/jobs/*", "https://shop.example.evil.example/jobs/1", false},
		{"https://shop.example/jobs/*", "https://shop.example/jobs/../admin", false},
		{"https://shop.example/jobs/*", "https://shop.example/jobs/%2e%2E/admin", false},
		{"https://shop.example/jobs/*", `https://shop.example/jobs/..\admin`, false},
		{"https://shop.example/jobs/*", "https://shop.example/jobs/..%2fadmin", false},
		{"https://shop.example/jobs/*", "https://shop.example/jobs/%2fx", true},
		{"https://shop.example/jobs/*", "https://shop.example/%6aobs/x", false}, // as it is written
		{"https://shop.example/jobs/*", "https://shop.example/jobs/..;/admin", false},
		{"https://shop.example/jobs/*", "https://shop.example/jobs/..%3bx/admin", false},
		{"https://shop.example/jobs/*", "https://shop.example/jobs/%252e%252e/admin", false},
		{"https://shop.example/jobs/*", "https://shop.example/jobs/..%00/admin", false},
		{"https://shop.example/jobs/*", "https://shop.example/jobs/a..b;c/100%25", true},
		{"https://shop.example/jobs*", "https://shop.example/jobs?id=7", true},
		{"https://shop.example/*", "https://shop.example", true},
		{"https://shop.example", "https://shop.example/", true},
		{"https://shop.example/x", "https://shop.example/x", true},
		{"https://shop.example/x", "https://shop.example/x/y", false},
		{"https://shop.example:443/*", "https://shop.example/x", false},
		{"https://*", "https://any.example:8443/x?y", true},
		{"https://*", "http://any.example/", false},
		{"https://*", "https://any.example/../x", false},
		{"https://*", "https://user:password@any.example/", false},
		{"http://*", "http://127.0.0.1/", true}, // the guard decides
	} {
		if fault := urlPatternFault(c.pattern); fault != nil {
			t.Errorf("%s: %s", c.pattern, fault.Detail)
		}
		if got := matchesURL(c.pattern, c.url); got != c.matches {
			t.Errorf("%s, %s: %t", c.pattern, c.url, got)
		}
	}
	for _, pattern := range []string{
		"*", "https:*", "ftp://*", "https://shop*", "https://shop.example*", "https://shop.example:8*",
		"https://shop.example?*", "https://shop.example/a/../b*", "https://shop.example/a/%2e%2e/b",
		"https://a:b@shop.example/*", "shop.example/*", "https:///*",
		"https://shop.example/jobs?token=*", "https://shop.example/jobs?",
	} {
		if urlPatternFault(pattern) == nil {
			t.Errorf("%s is taken", pattern)
		}
	}
}

// FuzzMatchesURL: a valid pattern with a host allows no URL of another server, and none with a path that leads
// elsewhere.
func FuzzMatchesURL(f *testing.F) {
	f.Add("https://shop.example/jobs/*", "https://shop.example/jobs/1")
	f.Add("https://shop.example/*", "https://shop.example.evil.example/")
	f.Add("http://[::1]:8080/a*", "http://[::1]:8080/a/../b")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if urlPatternFault(pattern) != nil || !matchesURL(pattern, text) || strings.HasSuffix(pattern, "://*") {
			return
		}
		p, u := strings.TrimSuffix(pattern, "*"), text
		if Origin(p) != Origin(u) {
			t.Errorf("%q allows %q", pattern, text)
		}
		parsed, err := url.Parse(u)
		if err != nil || parsed.User != nil || pattern != p && strings.Contains(parsed.JoinPath().Path+"/", "/../") {
			t.Errorf("%q allows %q", pattern, text)
		}
	})
}

func TestHeadersOfSettingsStayWithTheirServer(t *testing.T) {
	ofSettings := map[string]string{"Authorization": "secret", "X-A": "1"}
	for _, c := range []struct {
		own       map[string]string
		elsewhere bool
		want      map[string]string
	}{
		{nil, false, ofSettings},
		{map[string]string{"x-a": "2", "x-b": "3"}, false,
			map[string]string{"Authorization": "secret", "x-a": "2", "x-b": "3"}},
		{nil, true, nil},
		{map[string]string{"x-b": "3"}, true, map[string]string{"x-b": "3"}},
	} {
		if got := MergeHeaders(ofSettings, c.own, c.elsewhere); !maps.Equal(got, c.want) {
			t.Errorf("%v elsewhere %t: %v", c.own, c.elsewhere, got)
		}
	}
	if len(ofSettings) != 2 || ofSettings["X-A"] != "1" {
		t.Errorf("the settings have become %v", ofSettings)
	}
}
