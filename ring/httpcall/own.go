package httpcall

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock/settings"
)

// OwnURL returns the field url of an alarm's own endpoint. field is the field of the settings.
func OwnURL[T any](field settings.Field[T]) settings.OwnField[T] {
	return settings.OwnField[T]{Field: field, PatternFault: urlPatternFault, Matches: matchesURL}
}

// OwnHeaders returns the field with headers of an alarm's own endpoint. field is the field of the settings.
func OwnHeaders[T any](field settings.Field[T]) settings.OwnField[T] {
	return settings.OwnField[T]{Field: field, Matches: settings.MatchesNames}
}

// anyHost has the patterns that allow every URL of a scheme.
var anyHost = []string{"https://*", "http://*"}

// urlPatternFault returns the fault of a pattern: it names the whole host, so that no other host begins like it.
func urlPatternFault(pattern string) *settings.Fault {
	begin, isPrefix := strings.CutSuffix(pattern, "*")
	if slices.Contains(anyHost, pattern) {
		return nil
	}
	u, fault := ParseURL(begin)
	switch {
	case fault != nil:
		return fault
	case u.RawQuery != "" || u.ForceQuery:
		return settings.Wrong("must have no query: people see patterns. A * takes every query")
	case isPrefix && u.Path == "":
		return settings.Wrong("must have a path before the *, as in https://shop.example/*: other hosts may begin " +
			"like this one")
	case hasDots(u):
		return settings.Wrong("must have neither . nor .. in its path")
	}
	return nil
}

// matchesURL reports whether a pattern allows a URL. A path with . or .. is allowed by no pattern with a *, because the
// server may take it for another path.
func matchesURL(pattern, text string) bool {
	u, fault := ParseURL(text)
	if fault != nil {
		return false
	}
	begin, isPrefix := strings.CutSuffix(pattern, "*")
	if !isPrefix {
		p, fault := ParseURL(pattern)
		return fault == nil && whole(p) == whole(u)
	}
	if hasDots(u) {
		return false
	}
	if pattern == u.Scheme+"://*" {
		return true
	}
	p, fault := ParseURL(begin)
	return fault == nil && strings.HasPrefix(whole(u), whole(p))
}

// whole returns the text of a URL with its host in lower case, and with a path.
func whole(u *url.URL) string {
	c := *u
	c.Host = strings.ToLower(u.Host)
	if c.Path == "" {
		c.Path = "/"
	}
	return c.String()
}

// hasDots reports whether the path of a URL has a part that a server may take for . or .., written in any way: also
// with a parameter (..;x) or escaped twice.
func hasDots(u *url.URL) bool {
	path := u.Path
	for range 3 {
		decoded, err := url.PathUnescape(path)
		if err != nil {
			break
		}
		path = decoded
	}
	for part := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		name, _, _ := strings.Cut(part, ";")
		name = strings.TrimFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f })
		if name == "." || name == ".." {
			return true
		}
	}
	return false
}

// MergeHeaders returns the headers of an alarm's own endpoint: its own ones, and the headers of the settings that it
// does not name. An endpoint elsewhere gets none of the settings, because they may hold a password.
func MergeHeaders(ofSettings, own map[string]string, elsewhere bool) map[string]string {
	if elsewhere || len(ofSettings) == 0 {
		return own
	}
	merged := maps.Clone(ofSettings)
	for name, value := range own {
		for other := range ofSettings {
			if strings.EqualFold(other, name) {
				delete(merged, other)
			}
		}
		merged[name] = value
	}
	return merged
}
