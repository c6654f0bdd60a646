package webhook

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// Bounds and defaults of an Endpoint.
const (
	DefaultTimeout     = 15 * time.Second
	MinTimeout         = time.Second
	MaxTimeout         = 5 * time.Minute // package ring waits twice as long for a late reply
	DefaultConcurrency = 16
	MaxConcurrency     = 256

	maxURL         = 2048
	maxHeaders     = 32
	maxHeaderBytes = 8 << 10
	maxSecrets     = 8
)

// BodyKind is the body of an endpoint's requests.
type BodyKind string

// The kinds of bodies.
const (
	PayloadBody  BodyKind = "payload"  // the payload, byte for byte, with its own content type
	EnvelopeBody BodyKind = "envelope" // a JSON object with the ring and its payload
)

// Endpoint says how the rings of one application are sent. It must not be changed while a Target uses it.
type Endpoint struct {
	URL         string            // absolute, http or https
	Method      string            // POST, PUT or PATCH
	Headers     map[string]string // further headers of each request; nil: none
	Body        BodyKind
	Timeout     time.Duration // time for the whole request, from its begin to the head of the response
	Concurrency int           // most requests of the application under way at once
	Secrets     []Secret      // each request has a signature of each; at least one
}

// NewEndpoint returns an endpoint with the defaults.
func NewEndpoint(address string, secrets ...Secret) *Endpoint {
	return &Endpoint{
		URL: address, Method: http.MethodPost, Body: PayloadBody, Timeout: DefaultTimeout, Concurrency: DefaultConcurrency, Secrets: secrets,
	}
}

// Validate returns an *clock.Error of kind ErrInvalid that names the field, or nil. It does not look up the host: the guard checks the
// address of each connection.
func (e *Endpoint) Validate() error {
	if _, err := e.parseURL(); err != nil {
		return err
	}
	if !slices.Contains(methods, e.Method) {
		return clock.Invalid(clock.CodeInvalidValue, "method", "method must be "+strings.Join(methods, ", "))
	}
	if err := e.validateHeaders(); err != nil {
		return err
	}
	switch {
	case e.Body != PayloadBody && e.Body != EnvelopeBody:
		return clock.Invalid(clock.CodeInvalidValue, "body", "body must be payload or envelope")
	case e.Timeout < MinTimeout || e.Timeout > MaxTimeout || e.Timeout%time.Millisecond != 0:
		return clock.Invalid(clock.CodeOutOfRange, "timeout", fmt.Sprintf("timeout must be from %s to %s, in whole milliseconds", MinTimeout, MaxTimeout))
	case e.Concurrency < 1 || e.Concurrency > MaxConcurrency:
		return clock.Invalid(clock.CodeOutOfRange, "concurrency", fmt.Sprintf("concurrency must be from 1 to %d", MaxConcurrency))
	}
	_, err := e.keys()
	return err
}

// methods are the methods with a body. The HTTP client repeats none of them by itself once a byte was written.
var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch}

func (e *Endpoint) parseURL() (*url.URL, error) {
	invalid := func(detail string) (*url.URL, error) {
		return nil, clock.Invalid(clock.CodeInvalidValue, "url", "url "+detail)
	}
	switch {
	case e.URL == "":
		return nil, clock.Invalid(clock.CodeRequired, "url", "url is required")
	case len(e.URL) > maxURL:
		return nil, clock.Invalid(clock.CodeOutOfRange, "url", fmt.Sprintf("url has more than %d bytes", maxURL))
	case strings.ContainsFunc(e.URL, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return invalid("must be printable ASCII: percent-encode the path, and write the host in its ASCII form (xn--...)")
	}
	u, err := url.Parse(e.URL)
	if err != nil {
		return invalid("cannot be parsed") // the error repeats the URL, which may hold a password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return invalid("must begin with https:// or http://")
	case u.Hostname() == "":
		return invalid("must have a host")
	case u.User != nil:
		return invalid("must not have a user or a password: send an authorization header")
	case strings.Contains(e.URL, "#"):
		return invalid("must not have a fragment")
	case strings.ContainsAny(u.Hostname(), `%\"<>^{}|`+"`"):
		return invalid("has a host that is neither a name nor an address without a zone")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return invalid("has a port that is not from 1 to 65535")
		}
	}
	return u, nil
}

// ownHeaders are the headers that clockd or the HTTP client writes.
var ownHeaders = []string{
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te", "trailer", "traceparent",
	"transfer-encoding", "upgrade",
}

// ownPrefixes are the beginnings of such headers.
var ownPrefixes = []string{"webhook-", "x-clockd-", "proxy-"}

func (e *Endpoint) validateHeaders() error {
	size := 0
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		value := e.Headers[name]
		field, lower := "headers."+shown(name), strings.ToLower(name)
		own := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
		switch size += len(name) + len(value); {
		case len(e.Headers) > maxHeaders || size > maxHeaderBytes:
			return clock.Invalid(clock.CodeOutOfRange, "headers", fmt.Sprintf("headers must be at most %d, with %d bytes in all", maxHeaders, maxHeaderBytes))
		case !isToken(name):
			return clock.Invalid(clock.CodeInvalidValue, field, field+" is not the name of a header")
		case slices.Contains(ownHeaders, lower) || slices.ContainsFunc(ownPrefixes, own):
			return clock.Invalid(clock.CodeInvalidValue, field, field+" is a header that clockd writes itself")
		case seen[lower]:
			return clock.Invalid(clock.CodeAmbiguous, field, field+" comes twice, in different case")
		case !isHeaderValue(value):
			return clock.Invalid(clock.CodeInvalidValue, field, field+" must be printable ASCII without blanks at its ends")
		}
		seen[lower] = true
	}
	return nil
}

// keys returns the keys of all secrets.
func (e *Endpoint) keys() ([][]byte, error) {
	switch {
	case len(e.Secrets) == 0:
		return nil, clock.Invalid(clock.CodeRequired, "secrets", "secrets needs at least one signing secret, whsec_ with 24 to 64 bytes in base64")
	case len(e.Secrets) > maxSecrets:
		return nil, clock.Invalid(clock.CodeOutOfRange, "secrets", fmt.Sprintf("secrets must be at most %d", maxSecrets))
	}
	keys := make([][]byte, len(e.Secrets))
	for i, s := range e.Secrets {
		var err error
		field := fmt.Sprintf("secrets[%d]", i)
		if keys[i], err = s.key(); err != nil {
			return nil, clock.Invalid(clock.CodeInvalidValue, field, field+" "+err.Error())
		}
		if slices.Contains(e.Secrets[:i], s) {
			return nil, clock.Invalid(clock.CodeAmbiguous, field, field+" comes twice")
		}
	}
	return keys, nil
}

// Redacted returns a copy for people: without the secrets, without the values of headers, and without the query of the URL, because each may
// hold a password. The copy is not valid.
func (e *Endpoint) Redacted() *Endpoint {
	const hidden = "..."
	shown := *e
	if at := strings.IndexByte(e.URL, '?'); at >= 0 {
		shown.URL = e.URL[:at+1] + hidden
	}
	shown.Headers, shown.Secrets = nil, nil
	for name := range e.Headers {
		if shown.Headers == nil {
			shown.Headers = map[string]string{}
		}
		shown.Headers[name] = hidden
	}
	for _, s := range e.Secrets {
		shown.Secrets = append(shown.Secrets, Secret(s.String()))
	}
	return &shown
}

// isToken reports whether s is a token of RFC 9110, as names of headers are.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

func isHeaderValue(s string) bool {
	return s != "" && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// shown returns s as an error may repeat it.
func shown(s string) string {
	const longest = 64
	if len(s) > longest || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return strconv.QuoteToASCII(s[:min(len(s), longest)])
	}
	return s
}
