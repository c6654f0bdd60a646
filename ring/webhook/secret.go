package webhook

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
)

const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	newSecretBytes = 32
	maxSecretBytes = 64
)

// Secret is a signing secret as Standard Webhooks writes it (https://www.standardwebhooks.com): whsec_, then 24
// to 64 random bytes in base64. Logs and formatted text show only the prefix.
type Secret string

var _ slog.LogValuer = Secret("")

// NewSecret returns a secret of 32 random bytes.
func NewSecret() Secret {
	key := make([]byte, newSecretBytes)
	_, _ = rand.Read(key) // never fails
	return Secret(secretPrefix + base64.StdEncoding.EncodeToString(key))
}

// String returns the prefix, and nothing of the key.
func (s Secret) String() string { return secretPrefix + "..." }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue returns String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// encoded returns the key in base64.
func (s Secret) encoded() string { return strings.TrimPrefix(string(s), secretPrefix) }

// key returns the key for HMAC-SHA256. The error does not repeat the secret.
func (s Secret) key() ([]byte, error) {
	encoded, found := strings.CutPrefix(string(s), secretPrefix)
	if !found {
		return nil, fmt.Errorf("must begin with %s", secretPrefix)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, fmt.Errorf("must be standard base64 with padding behind %s", secretPrefix)
	}
	if len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return nil, fmt.Errorf("must hold from %d to %d bytes, and holds %d", minSecretBytes,
			maxSecretBytes, len(key))
	}
	return key, nil
}
