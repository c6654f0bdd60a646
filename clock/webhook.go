package clock

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds and defaults of a Webhook.
const (
	DefaultWebhookTimeout     = 15 * time.Second
	MinWebhookTimeout         = time.Second
	MaxWebhookTimeout         = 5 * time.Minute // package ring waits twice as long for a late reply
	DefaultWebhookConcurrency = 16
	MaxWebhookConcurrency     = 256

	maxWebhookURL     = 2048 // bytes
	maxWebhookHeaders = 32
	maxHeaderBytes    = 8 << 10 // of all names and values
	maxWebhookSecrets = 8
)

// WebhookBody is the body of an application's requests.
type WebhookBody string

// The kinds of bodies.
const (
	PayloadBody  WebhookBody = "payload"  // the payload, byte for byte, with its own content type
	EnvelopeBody WebhookBody = "envelope" // a JSON object with the ring and its payload
)

// Webhook is the endpoint of one application: it says how its rings are sent as HTTP requests. It does not change.
type Webhook struct {
	URL         string            // absolute, http or https
	Method      string            // POST, PUT or PATCH
	Headers     map[string]string // further headers of each request; nil: none
	Body        WebhookBody
	Timeout     time.Duration   // time for the whole request, from its begin to the head of the response
	Concurrency int             // most requests of the application under way at once
	Secrets     []WebhookSecret // each request has a signature of each; at least one
}

// NewWebhook returns an endpoint with the defaults.
func NewWebhook(address string, secrets ...WebhookSecret) *Webhook {
	return &Webhook{
		URL: address, Method: "POST", Body: PayloadBody, Timeout: DefaultWebhookTimeout, Concurrency: DefaultWebhookConcurrency,
		Secrets: secrets,
	}
}

// equals reports whether both endpoints are the same, or both are nil.
func (w *Webhook) equals(other *Webhook) bool {
	if w == nil || other == nil {
		return w == other
	}
	return w.URL == other.URL && w.Method == other.Method && maps.Equal(w.Headers, other.Headers) && w.Body == other.Body &&
		w.Timeout == other.Timeout && w.Concurrency == other.Concurrency && slices.Equal(w.Secrets, other.Secrets)
}

// Validate returns an *Error of kind ErrInvalid that names the field, or nil. It does not look up the host: the guard checks the
// address of each connection.
func (w *Webhook) Validate() error {
	if _, err := w.ParsedURL(); err != nil {
		return err
	}
	if !slices.Contains(webhookMethods, w.Method) {
		return invalid(CodeInvalidValue, "method", "method must be "+strings.Join(webhookMethods, ", "))
	}
	if err := w.validateHeaders(); err != nil {
		return err
	}
	switch {
	case w.Body != PayloadBody && w.Body != EnvelopeBody:
		return invalid(CodeInvalidValue, "body", "body must be payload or envelope")
	case w.Timeout < MinWebhookTimeout || w.Timeout > MaxWebhookTimeout || w.Timeout%time.Millisecond != 0:
		return invalid(CodeOutOfRange, "timeout", fmt.Sprintf("timeout must be from %s to %s, in whole milliseconds", MinWebhookTimeout, MaxWebhookTimeout))
	case w.Concurrency < 1 || w.Concurrency > MaxWebhookConcurrency:
		return invalid(CodeOutOfRange, "concurrency", fmt.Sprintf("concurrency must be from 1 to %d", MaxWebhookConcurrency))
	}
	_, err := w.Keys()
	return err
}

// webhookMethods are the webhookMethods with a body. The HTTP client repeats none of them by itself once a byte was written.
var webhookMethods = []string{"POST", "PUT", "PATCH"}

// ParsedURL returns the URL of a valid endpoint.
func (w *Webhook) ParsedURL() (*url.URL, error) {
	refuse := func(detail string) (*url.URL, error) {
		return nil, invalid(CodeInvalidValue, "url", "url "+detail)
	}
	switch {
	case w.URL == "":
		return nil, invalid(CodeRequired, "url", "url is required")
	case len(w.URL) > maxWebhookURL:
		return nil, invalid(CodeOutOfRange, "url", fmt.Sprintf("url has more than %d bytes", maxWebhookURL))
	case strings.ContainsFunc(w.URL, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return refuse("must be printable ASCII: percent-encode the path, and write the host in its ASCII form (xn--...)")
	}
	u, err := url.Parse(w.URL)
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
	case strings.Contains(w.URL, "#"):
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
	"connection", "content-encoding", "content-length", "content-type", "expect", "host", "keep-alive", "te", "trailer", "traceparent",
	"transfer-encoding", "upgrade",
}

// ownPrefixes are the beginnings of such headers.
var ownPrefixes = []string{"webhook-", "x-clockd-", "proxy-"}

func (w *Webhook) validateHeaders() error {
	size := 0
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(w.Headers)) {
		value := w.Headers[name]
		field, lower := "headers."+cleanName(name), strings.ToLower(name)
		own := func(prefix string) bool { return strings.HasPrefix(lower, prefix) }
		switch size += len(name) + len(value); {
		case len(w.Headers) > maxWebhookHeaders || size > maxHeaderBytes:
			return invalid(CodeOutOfRange, "headers", fmt.Sprintf("headers must be at most %d, with %d bytes in all", maxWebhookHeaders, maxHeaderBytes))
		case !isToken(name):
			return invalid(CodeInvalidValue, field, field+" is not the name of a header")
		case slices.Contains(ownHeaders, lower) || slices.ContainsFunc(ownPrefixes, own):
			return invalid(CodeInvalidValue, field, field+" is a header that clockd writes itself")
		case seen[lower]:
			return invalid(CodeAmbiguous, field, field+" comes twice, in different case")
		case !IsHeaderValue(value):
			return invalid(CodeInvalidValue, field, field+" must be printable ASCII without blanks at its ends")
		}
		seen[lower] = true
	}
	return nil
}

// Keys returns the keys of all secrets.
func (w *Webhook) Keys() ([][]byte, error) {
	switch {
	case len(w.Secrets) == 0:
		return nil, invalid(CodeRequired, "secrets", "secrets needs at least one signing secret, whsec_ with 24 to 64 bytes in base64")
	case len(w.Secrets) > maxWebhookSecrets:
		return nil, invalid(CodeOutOfRange, "secrets", fmt.Sprintf("secrets must be at most %d", maxWebhookSecrets))
	}
	keys := make([][]byte, len(w.Secrets))
	for i, s := range w.Secrets {
		var err error
		field := fmt.Sprintf("secrets[%d]", i)
		if keys[i], err = s.Key(); err != nil {
			return nil, invalid(CodeInvalidValue, field, field+" "+err.Error())
		}
		if slices.Contains(w.Secrets[:i], s) {
			return nil, invalid(CodeAmbiguous, field, field+" comes twice")
		}
	}
	return keys, nil
}

// Redacted returns a copy for people: without the secrets, without the values of headers, and without the query of the URL, because each may
// hold a password. The copy is not valid.
func (w *Webhook) Redacted() *Webhook {
	const hidden = "..."
	shown := *w
	if at := strings.IndexByte(w.URL, '?'); at >= 0 {
		shown.URL = w.URL[:at+1] + hidden
	}
	shown.Headers, shown.Secrets = nil, nil
	for name := range w.Headers {
		if shown.Headers == nil {
			shown.Headers = map[string]string{}
		}
		shown.Headers[name] = hidden
	}
	for _, s := range w.Secrets {
		shown.Secrets = append(shown.Secrets, WebhookSecret(s.String()))
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

// IsHeaderValue reports whether s is printable ASCII without blanks at its ends.
func IsHeaderValue(s string) bool {
	return s != "" && strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// cleanName returns the name of a member as an error may repeat it.
func cleanName(s string) string {
	const longest = 64
	if len(s) > longest || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return strconv.QuoteToASCII(s[:min(len(s), longest)])
	}
	return s
}
