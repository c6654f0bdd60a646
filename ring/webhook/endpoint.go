package webhook

import (
	"cmp"
	"net/http"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/ring/httpcall"
)

// Endpoint says how the rings of one application are sent as HTTP requests. It does not change.
type Endpoint struct {
	URL         string            // absolute, http or https
	Method      string            // POST, PUT or PATCH; GET and DELETE have no body
	Headers     map[string]string // further headers of each request; nil: none
	Body        Body
	Timeout     time.Duration // time for the whole request, from its begin to the head of the response
	Concurrency int           // most requests of the application under way at once
	Secrets     []Secret      // each request has a signature of each; at least one

	AlarmFields settings.Patterns // fields that alarms may bring themselves; nil: none
}

// Body is the body of an application's requests.
type Body string

// The kinds of bodies.
const (
	PayloadBody  Body = "payload"  // the payload, byte for byte, with its own content type
	EnvelopeBody Body = "envelope" // a JSON object with the ring and its payload
)

// NewEndpoint returns an endpoint with the defaults.
func NewEndpoint(address string, secrets ...Secret) *Endpoint {
	return &Endpoint{
		URL: address, Method: "POST", Body: PayloadBody, Timeout: httpcall.DefaultTimeout,
		Concurrency: httpcall.DefaultConcurrency, Secrets: secrets,
	}
}

// The fields of an endpoint that alarms may bring themselves.
var (
	urlField = httpcall.URLField("Where requests go.", "https://shop.example/rings",
		func(e *Endpoint) *string { return &e.URL }, nil)
	methodField = settings.Choice(
		settings.FieldInfo{Name: "method", Help: "Method of the requests. GET and DELETE have no body."},
		func(e *Endpoint) *string { return &e.Method }, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodGet, http.MethodDelete)
	headersField = httpcall.HeadersField(
		settings.FieldInfo{Name: "headers", Flag: "header", Help: "Further headers of each request."},
		func(e *Endpoint) *map[string]string { return &e.Headers }, nil)
)

// own are the fields of an endpoint that alarms may bring themselves.
var own = &settings.Own[Endpoint]{
	Fields: []settings.OwnField[Endpoint]{
		httpcall.OwnURL(urlField), {Field: methodField}, httpcall.OwnHeaders(headersField),
	},
	Patterns: func(e *Endpoint) settings.Patterns { return e.AlarmFields },
	With:     (*Endpoint).with,
	Place:    func(e *Endpoint) string { return httpcall.Origin(e.URL) },
}

// with returns a copy of e with the fields of own that are not empty.
func (e *Endpoint) with(own *Endpoint) *Endpoint {
	merged := *e
	merged.URL, merged.Method = cmp.Or(own.URL, e.URL), cmp.Or(own.Method, e.Method)
	elsewhere := httpcall.Origin(merged.URL) != httpcall.Origin(e.URL)
	merged.Headers = httpcall.MergeHeaders(e.Headers, own.Headers, elsewhere)
	return &merged
}

// Part is the endpoint in the settings of an application.
var Part = &settings.Part[Endpoint]{
	Name: "webhook", Type: "Webhook", Target: clock.TargetWebhook, Needs: "an endpoint",
	Help:     "The HTTP endpoint of an application whose target is webhook.",
	New:      func() *Endpoint { return NewEndpoint("") },
	Receiver: own.Place,
	Own:      own,
	Fields: []settings.Field[Endpoint]{
		urlField, methodField, headersField,
		settings.Choice(settings.FieldInfo{
			Name: "body",
			Help: "payload: the payload as it is. envelope: a JSON object with the ring and its payload.",
		}, func(e *Endpoint) *Body { return &e.Body }, PayloadBody, EnvelopeBody),
		httpcall.TimeoutField("The longest wait for a response.",
			func(e *Endpoint) *time.Duration { return &e.Timeout }),
		httpcall.ConcurrencyField("requests", func(e *Endpoint) *int { return &e.Concurrency }),
		settings.Secrets(settings.FieldInfo{
			Name: "secrets", Flag: "secret", Max: 8, Example: "whsec_ and 24 to 64 bytes in base64",
			Help: "Signing secrets. Each request has a signature of each.",
			New:  func() string { return string(NewSecret()) },
		}, func(e *Endpoint) *[]Secret { return &e.Secrets }, func(s Secret) *settings.Fault {
			if _, err := s.key(); err != nil {
				return settings.Wrong(err.Error())
			}
			return nil
		}),
		settings.AlarmFields(own.Fields, func(e *Endpoint) *settings.Patterns { return &e.AlarmFields }),
	},
	Check: func(e *Endpoint) error {
		if !e.hasBody() && e.Body == EnvelopeBody {
			return clock.Invalid(clock.CodeAmbiguous, "body", "the method "+e.Method+" has no body: leave body out")
		}
		return nil
	},
}

// hasBody reports whether the requests have a body.
func (e *Endpoint) hasBody() bool { return e.Method != http.MethodGet && e.Method != http.MethodDelete }
