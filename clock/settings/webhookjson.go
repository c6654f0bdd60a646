package settings

import (
	"encoding/json"
	"fmt"

	"github.com/clockd/clockd/clock"
)

// webhookFields are the fields of an endpoint in a settings document.
var webhookFields = []string{"url", "method", "headers", "body", "timeout", "concurrency", "secrets"}

// parseWebhook reads the endpoint of a settings document. Fields that are left out have the values of NewWebhook. The
// field of an error begins with webhook.
func parseWebhook(raw []byte) (*Webhook, error) {
	w := NewWebhook("")
	err := eachMember("", raw, webhookFields, w.decode)
	if err == nil {
		err = w.Validate()
	}
	if err != nil {
		return nil, within("webhook", err)
	}
	return w, nil
}

// decode reads one field.
func (w *Webhook) decode(name string, raw []byte) error {
	switch name {
	case "url":
		return parseTextField(raw, name, &w.URL)
	case "method":
		return parseTextField(raw, name, &w.Method)
	case "body":
		return parseTextField(raw, name, (*string)(&w.Body))
	case "timeout":
		return parseDurationField(raw, name, &w.Timeout)
	case "concurrency":
		return parseIntField(raw, name, &w.Concurrency)
	case "headers":
		var err error
		w.Headers, err = parseHeaders(name, raw)
		return err
	}
	return w.decodeSecrets(raw)
}

// parseHeaders reads an object of texts. object is its name.
func parseHeaders(object string, raw []byte) (map[string]string, error) {
	headers := map[string]string{}
	return headers, eachMember(object+".", raw, nil, func(name string, raw []byte) error {
		var value string
		err := parseTextField(raw, object+"."+cleanName(name), &value)
		headers[name] = value
		return err
	})
}

func (w *Webhook) decodeSecrets(raw []byte) error {
	var values []json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		return clock.Invalid(clock.CodeInvalidValue, "secrets", "secrets must be an array of strings")
	}
	for i, value := range values {
		var secret string
		if err := parseTextField(value, fmt.Sprintf("secrets[%d]", i), &secret); err != nil {
			return err
		}
		w.Secrets = append(w.Secrets, WebhookSecret(secret))
	}
	return nil
}

// webhookFormat is the JSON of an endpoint in a settings document.
type webhookFormat struct {
	URL         string            `json:"url"`
	Method      string            `json:"method"`
	Headers     map[string]string `json:"headers,omitempty"`
	Body        WebhookBody       `json:"body"`
	Timeout     string            `json:"timeout"`
	Concurrency int               `json:"concurrency"`
	Secrets     []string          `json:"secrets"`
}

// format returns the JSON of the endpoint, with its secrets.
func (w *Webhook) format() *webhookFormat {
	if w == nil {
		return nil
	}
	f := &webhookFormat{
		URL: w.URL, Method: w.Method, Headers: w.Headers, Body: w.Body, Timeout: shortDuration(w.Timeout),
		Concurrency: w.Concurrency, Secrets: make([]string, len(w.Secrets)),
	}
	for i := range w.Secrets {
		f.Secrets[i] = string(w.Secrets[i])
	}
	return f
}

// RedactedJSON returns the endpoint as it is in the document of Settings.Redacted; null for nil.
func (w *Webhook) RedactedJSON() []byte {
	if w == nil {
		return []byte("null")
	}
	b, err := json.Marshal(w.Redacted().format())
	if err != nil { // texts and whole numbers can be encoded
		panic("settings: encode a webhook: " + err.Error())
	}
	return b
}
