package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/clockd/clockd/clock/settings"
)

// webhookFlags change the endpoint of an application.
type webhookFlags struct {
	WebhookURL         string            `name:"webhook-url" placeholder:"URL" help:"URL that rings are posted to. The first one gets a signing secret, which the command prints."`
	Webhook            map[string]string `mapsep:"," placeholder:"method=POST,body=payload,timeout=15s,concurrency=16" help:"Parts of the endpoint; parts that are left out stay."`
	WebhookHeader      map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"Header of each request. May be repeated; an empty value removes the header."`
	WebhookSecret      string            `placeholder:"new|whsec_..." help:"Add a signing secret: new makes one and prints it. Requests are signed with all secrets."`
	WebhookDropSecrets bool              `help:"Keep only the newest signing secret, after all receivers know it."`
}

// named reports whether any flag is given.
func (f *webhookFlags) named() bool {
	return f.WebhookURL != "" || len(f.Webhook) > 0 || len(f.WebhookHeader) > 0 || f.WebhookSecret != "" ||
		f.WebhookDropSecrets
}

// errSecretsInWebhook says how secrets and headers are given.
var errSecretsInWebhook = errors.New("--webhook: headers, secrets and url have flags of their own: --webhook-header, --webhook-secret, --webhook-url")

// apply changes the endpoint of a document, nil if it has none. made is the secret that was made, "" for none.
func (f *webhookFlags) apply(endpoint map[string]any) (changed map[string]any, made settings.WebhookSecret, err error) {
	if endpoint == nil {
		endpoint = map[string]any{}
	}
	if f.WebhookURL != "" {
		endpoint["url"] = f.WebhookURL
	}
	for name, value := range f.Webhook {
		switch name {
		case "url", "headers", "secrets":
			return nil, "", usage(errSecretsInWebhook)
		default:
			endpoint[name] = endpointPart(name, value)
		}
	}
	endpoint["headers"] = withHeaders(endpoint["headers"], f.WebhookHeader)
	secrets, _ := endpoint["secrets"].([]any)
	secret := settings.WebhookSecret(f.WebhookSecret)
	if f.WebhookSecret == "new" || f.WebhookSecret == "" && len(secrets) == 0 {
		made = settings.NewWebhookSecret()
		secret = made
	}
	if secret != "" {
		secrets = append([]any{string(secret)}, secrets...)
	}
	if f.WebhookDropSecrets {
		secrets = secrets[:min(1, len(secrets))]
	}
	endpoint["secrets"] = secrets
	return endpoint, made, nil
}

// endpointPart returns a part of an endpoint for a document.
func endpointPart(name, value string) any {
	if name == "concurrency" && json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	return value
}

// withHeaders returns the headers of a document with changes. An empty value removes a header.
func withHeaders(before any, changes map[string]string) map[string]any {
	headers, _ := before.(map[string]any)
	headers = maps.Clone(headers)
	for name, value := range changes {
		if headers == nil {
			headers = map[string]any{}
		}
		headers[name] = value
		if value == "" {
			delete(headers, name)
		}
	}
	return headers
}

// describeWebhook returns an endpoint on one line for people, without its secrets.
func describeWebhook(w *settings.Webhook) string {
	if w == nil {
		return "none"
	}
	shown := w.Redacted()
	return fmt.Sprintf("%s %s, body %s, timeout %s, concurrency %d, headers %d, secrets %d",
		shown.Method, shown.URL, shown.Body, shown.Timeout, shown.Concurrency, len(shown.Headers), len(shown.Secrets))
}

// printSecret prints a secret that was made.
func printSecret(out io.Writer, secret settings.WebhookSecret) {
	if secret != "" {
		_, _ = fmt.Fprintf(out, "new signing secret: %s\n", string(secret))
	}
}

// readSettings returns the settings of a version. The error does not repeat the document: nobody knows which parts of
// it are secret.
func readSettings(v *settings.Version) (settings.Settings, error) {
	s, err := settings.Parse(cmp.Or(v.Document, "{}"))
	if err != nil {
		err = fmt.Errorf("the settings cannot be read: %w; `clockd application show --secrets` shows the present ones as they are", err)
	}
	return s, err
}

// shownDocument returns a stored document without what may be secret.
func shownDocument(v *settings.Version) (string, error) {
	s, err := readSettings(v)
	if err != nil {
		return "", err
	}
	redacted := s.Redacted()
	return redacted.Encode(), nil
}

// listedDocument returns a stored document as a list for people shows it.
func listedDocument(v *settings.Version) string {
	document, err := shownDocument(v)
	if err != nil {
		return err.Error()
	}
	return document
}
