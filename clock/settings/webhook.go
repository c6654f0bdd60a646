package settings

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// maxWebhookSecrets is the largest number of signing secrets of an endpoint.
const maxWebhookSecrets = 8

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
		URL: address, Method: "POST", Body: PayloadBody, Timeout: DefaultEndpointTimeout,
		Concurrency: DefaultEndpointConcurrency,
		Secrets:     secrets,
	}
}

// equals reports whether both endpoints are the same, or both are nil.
func (w *Webhook) equals(other *Webhook) bool {
	if w == nil || other == nil {
		return w == other
	}
	return w.URL == other.URL && w.Method == other.Method && maps.Equal(w.Headers, other.Headers) &&
		w.Body == other.Body &&
		w.Timeout == other.Timeout && w.Concurrency == other.Concurrency && slices.Equal(w.Secrets, other.Secrets)
}

// Validate returns a *clock.Error of kind clock.ErrInvalid that names the field, or nil. It does not look up the host:
// the guard checks the address of each connection.
func (w *Webhook) Validate() error {
	if _, err := w.ParsedURL(); err != nil {
		return err
	}
	if !slices.Contains(webhookMethods, w.Method) {
		return clock.Invalid(clock.CodeInvalidValue, "method", "method must be "+strings.Join(webhookMethods, ", "))
	}
	if err := validateHeaders("headers", w.Headers); err != nil {
		return err
	}
	switch {
	case w.Body != PayloadBody && w.Body != EnvelopeBody:
		return clock.Invalid(clock.CodeInvalidValue, "body", "body must be payload or envelope")
	case w.Timeout < MinEndpointTimeout || w.Timeout > MaxEndpointTimeout || w.Timeout%time.Millisecond != 0:
		return clock.Invalid(clock.CodeOutOfRange, "timeout",
			fmt.Sprintf("timeout must be from %s to %s, in whole milliseconds", MinEndpointTimeout, MaxEndpointTimeout))
	case w.Concurrency < 1 || w.Concurrency > MaxEndpointConcurrency:
		return clock.Invalid(clock.CodeOutOfRange, "concurrency",
			fmt.Sprintf("concurrency must be from 1 to %d", MaxEndpointConcurrency))
	}
	_, err := w.Keys()
	return err
}

// webhookMethods are the webhookMethods with a body. The HTTP client repeats none of them by itself once a byte was
// written.
var webhookMethods = []string{"POST", "PUT", "PATCH"}

// ParsedURL returns the URL of a valid endpoint.
func (w *Webhook) ParsedURL() (*url.URL, error) { return parseEndpointURL(w.URL) }

// Keys returns the keys of all secrets.
func (w *Webhook) Keys() ([][]byte, error) {
	switch {
	case len(w.Secrets) == 0:
		return nil, clock.Invalid(clock.CodeRequired, "secrets",
			"secrets needs at least one signing secret, whsec_ with 24 to 64 bytes in base64")
	case len(w.Secrets) > maxWebhookSecrets:
		return nil, clock.Invalid(clock.CodeOutOfRange, "secrets",
			fmt.Sprintf("secrets must be at most %d", maxWebhookSecrets))
	}
	keys := make([][]byte, len(w.Secrets))
	for i, s := range w.Secrets {
		var err error
		field := fmt.Sprintf("secrets[%d]", i)
		if keys[i], err = s.Key(); err != nil {
			return nil, clock.Invalid(clock.CodeInvalidValue, field, field+" "+err.Error())
		}
		if slices.Contains(w.Secrets[:i], s) {
			return nil, clock.Invalid(clock.CodeAmbiguous, field, field+" comes twice")
		}
	}
	return keys, nil
}

// Redacted returns a copy for people: without the secrets, without the values of headers, and without the query of the
// URL, because each may hold a password. The copy is not valid.
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
