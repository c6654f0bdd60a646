package settings

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// Bounds and defaults of the endpoints of settings: Webhook and GRPC.
const (
	DefaultEndpointTimeout     = 15 * time.Second
	MinEndpointTimeout         = time.Second
	MaxEndpointTimeout         = 5 * time.Minute // package ring waits twice as long for a late reply
	DefaultEndpointConcurrency = 16
	MaxEndpointConcurrency     = 256

	maxEndpointURL     = 2048 // bytes
	maxEndpointHeaders = 32
	maxHeaderBytes     = 8 << 10 // of all names and values
)

// parseEndpointURL returns the URL of an endpoint. The error names the field url.
func parseEndpointURL(text string) (*url.URL, error) {
	refuse := func(detail string) (*url.URL, error) {
		return nil, clock.Invalid(clock.CodeInvalidValue, "url", "url "+detail)
	}
	switch {
	case text == "":
		return nil, clock.Invalid(clock.CodeRequired, "url", "url is required")
	case len(text) > maxEndpointURL:
		return nil, clock.Invalid(clock.CodeOutOfRange, "url",
			fmt.Sprintf("url has more than %d bytes", maxEndpointURL))
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return refuse("must be printable ASCII: percent-encode the path, and write the host in its ASCII form (xn--...)")
	}
	u, err := url.Parse(text)
	if err != nil {
		return refuse("cannot be parsed") // the error repeats the URL, which may hold a password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return refuse("must begin with https:// or http://")
	case u.Hostname() == "":
		return refuse("must have a host")
	case u.User != nil:
		return refuse("must not have a user or a password: send an authorization header")
	case strings.Contains(text, "#"):
		return refuse("must not have a fragment")
	case strings.ContainsAny(u.Hostname(), `%\"<>^{}|`+"`"):
		return refuse("has a host that is neither a name nor an address without a zone")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return refuse("has a port that is not from 1 to 65535")
		}
	}
	return u, nil
}

// ownHeaders are the headers that clockd or the HTTP client writes.
var ownHeaders = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te", "trailer",
	"traceparent",
	"transfer-encoding", "upgrade",
}

// ownPrefixes are the beginnings of such headers.
var ownPrefixes = []string{"webhook-", "x-clockd-", "proxy-"}

// validateHeaders checks the headers that settings add to requests. object is the name of the object that has them.
func validateHeaders(object string, headers map[string]string) error {
	size := 0
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		field, lower := object+"."+cleanName(name), strings.ToLower(name)
		own := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
		switch size += len(name) + len(value); {
		case len(headers) > maxEndpointHeaders || size > maxHeaderBytes:
			return clock.Invalid(clock.CodeOutOfRange, object,
				fmt.Sprintf("%s must be at most %d, with %d bytes in all", object, maxEndpointHeaders, maxHeaderBytes))
		case !isToken(name):
			return clock.Invalid(clock.CodeInvalidValue, field, field+" is not the name of a header")
		case slices.Contains(ownHeaders, lower) || slices.ContainsFunc(ownPrefixes, own):
			return clock.Invalid(clock.CodeInvalidValue, field, field+" is a header that clockd writes itself")
		case seen[lower]:
			return clock.Invalid(clock.CodeAmbiguous, field, field+" comes twice, in different case")
		case !IsHeaderValue(value):
			return clock.Invalid(clock.CodeInvalidValue, field,
				field+" must be printable ASCII without blanks at its ends")
		}
		seen[lower] = true
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

// IsHeaderValue reports whether s is printable ASCII without blanks at its ends.
func IsHeaderValue(s string) bool {
	return s != "" && strings.TrimSpace(s) == s &&
		!strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// cleanName returns the name of a member as an error may repeat it.
func cleanName(s string) string {
	const longest = 64
	if len(s) > longest || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return strconv.QuoteToASCII(s[:min(len(s), longest)])
	}
	return s
}
