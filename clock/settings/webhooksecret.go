package settings

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
)

const (
	webhookSecretPrefix   = "whsec_"
	minWebhookSecretBytes = 24
	newWebhookSecretBytes = 32
	maxWebhookSecretBytes = 64
)

// WebhookSecret is a signing secret as Standard Webhooks writes it (https://www.standardwebhooks.com): whsec_, then 24
// to 64 random bytes in base64. Logs and formatted text show only the prefix.
type WebhookSecret string

var _ slog.LogValuer = WebhookSecret("")

// NewWebhookSecret returns a secret of 32 random bytes.
func NewWebhookSecret() WebhookSecret {
	key := make([]byte, newWebhookSecretBytes)
	_, _ = rand.Read(key) // never fails
	return WebhookSecret(webhookSecretPrefix + base64.StdEncoding.EncodeToString(key))
}

// String returns the prefix, and nothing of the key.
func (s WebhookSecret) String() string { return webhookSecretPrefix + "..." }

// GoString is String.
func (s WebhookSecret) GoString() string { return s.String() }

// LogValue returns String.
func (s WebhookSecret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Encoded returns the key in base64.
func (s WebhookSecret) Encoded() string { return strings.TrimPrefix(string(s), webhookSecretPrefix) }

// Key returns the key for HMAC-SHA256. The error does not repeat the secret.
func (s WebhookSecret) Key() ([]byte, error) {
	encoded, found := strings.CutPrefix(string(s), webhookSecretPrefix)
	if !found {
		return nil, fmt.Errorf("must begin with %s", webhookSecretPrefix)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, fmt.Errorf("must be standard base64 with padding behind %s", webhookSecretPrefix)
	}
	if len(key) < minWebhookSecretBytes || len(key) > maxWebhookSecretBytes {
		return nil, fmt.Errorf("must hold from %d to %d bytes, and holds %d", minWebhookSecretBytes,
			maxWebhookSecretBytes, len(key))
	}
	return key, nil
}
