package httpcall

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// Bounds and defaults of endpoints in the settings of applications.
const (
	DefaultTimeout     = 15 * time.Second
	MinTimeout         = time.Second
	MaxTimeout         = 5 * time.Minute // package ring waits twice as long for a late reply
	DefaultConcurrency = 16
	MaxConcurrency     = 256

	maxURL         = 2048 // bytes
	maxHeaders     = 32
	maxHeaderBytes = 8 << 10 // of all names and values
)

// URLField returns the field url of an endpoint. check looks for faults of a URL that ParseURL takes; nil: it has none.
// People see the URL without its query.
func URLField[T any](help, example string, at func(*T) *string, check func(*url.URL) *settings.Fault) settings.Field[T] {
	info := settings.FieldInfo{Name: "url", Flag: "url", Required: true, Max: maxURL, Example: example,
		Help: help + " People see it without its query."}
	return settings.Text(info, at, func(text string) *settings.Fault {
		u, fault := ParseURL(text)
		if fault != nil || check == nil {
			return fault
		}
		return check(u)
	}).Redacted(func(text string) (string, bool) {
		if before, _, found := strings.Cut(text, "?"); found {
			return before + "?...", true
		}
		return text, false
	})
}

// Origin returns the scheme, host and port of an endpoint's URL, "" for a URL that ParseURL does not take.
func Origin(text string) string {
	u, fault := ParseURL(text)
	if fault != nil {
		return ""
	}
	return u.Scheme + "://" + strings.ToLower(u.Host)
}

// ParseURL returns the URL of an endpoint. It does not look up the host: the guard checks the address of each
// connection.
func ParseURL(text string) (*url.URL, *settings.Fault) {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, settings.Wrong(
			"must be printable ASCII: percent-encode the path, and write the host in its ASCII form (xn--...)")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, settings.Wrong("cannot be parsed") // the error repeats the URL, which may hold a password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, settings.Wrong("must begin with https:// or http://")
	case u.Hostname() == "":
		return nil, settings.Wrong("must have a host")
	case u.User != nil:
		return nil, settings.Wrong("must not have a user or a password: send an authorization header")
	case strings.Contains(text, "#"):
		return nil, settings.Wrong("must not have a fragment")
	case strings.ContainsAny(u.Hostname(), `%\"<>^{}|`+"`"):
		return nil, settings.Wrong("has a host that is neither a name nor an address without a zone")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, settings.Wrong("has a port that is not from 1 to 65535")
		}
	}
	return u, nil
}

// HeadersField returns a field with further headers of each request. check looks for faults in a name that clockd does
// not write itself; nil: it has none.
func HeadersField[T any](
	info settings.FieldInfo, at func(*T) *map[string]string, check func(lowerName string) *settings.Fault,
) settings.Field[T] {
	return settings.Texts(info, at, settings.AtMost(maxHeaders, maxHeaderBytes), func(headers map[string]string, name string) *settings.Fault {
		fault := headerFault(headers, name)
		if fault != nil || check == nil {
			return fault
		}
		return check(strings.ToLower(name))
	})
}

// ownHeaders are the headers that clockd or the HTTP client writes.
var ownHeaders = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te", "trailer",
	"traceparent", "transfer-encoding", "upgrade",
}

// ownPrefixes are the beginnings of such headers.
var ownPrefixes = []string{"webhook-", "x-clockd-", "proxy-"}

// headerFault returns the fault of one header.
func headerFault(headers map[string]string, name string) *settings.Fault {
	lower := strings.ReplaceAll(strings.ToLower(name), "_", "-") // CGI and WSGI take both for one
	begins := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
	switch {
	case !isToken(name):
		return settings.Wrong("is not the name of a header")
	case slices.Contains(ownHeaders, lower) || slices.ContainsFunc(ownPrefixes, begins):
		return settings.Wrong("is a header that clockd writes itself")
	case !isHeaderValue(headers[name]):
		return settings.Wrong("must be printable ASCII without blanks at its ends")
	}
	for other := range headers {
		if other < name && strings.EqualFold(other, name) {
			return &settings.Fault{Code: clock.CodeAmbiguous, Detail: "comes twice, in different case"}
		}
	}
	return nil
}

// isToken reports whether s is a token of RFC 9110, as names of headers are.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// isHeaderValue reports whether s is printable ASCII without blanks at its ends.
func isHeaderValue(s string) bool {
	return s != "" && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// TimeoutField returns the field timeout of an endpoint.
func TimeoutField[T any](help string, at func(*T) *time.Duration) settings.Field[T] {
	return settings.Duration(settings.FieldInfo{Name: "timeout", Help: help}, at, MinTimeout, MaxTimeout)
}

// ConcurrencyField returns the field concurrency of an endpoint.
func ConcurrencyField[T any](noun string, at func(*T) *int) settings.Field[T] {
	return settings.Integer(settings.FieldInfo{
		Name: "concurrency", Min: 1, Max: MaxConcurrency,
		Help: fmt.Sprintf("The most %s of the application under way at once.", noun),
	}, at)
}
