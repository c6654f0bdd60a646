package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
)

const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
)

// Secret is a signing secret as Standard Webhooks writes it: whsec_, then 24 to 64 random bytes in base64. Logs and formatted text show only
// the prefix.
type Secret string

var _ slog.LogValuer = Secret("")

// String returns the prefix, and nothing of the key.
func (s Secret) String() string { return secretPrefix + "..." }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue returns String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

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
		return nil, fmt.Errorf("must hold from %d to %d bytes, and holds %d", minSecretBytes, maxSecretBytes, len(key))
	}
	return key, nil
}

// signatures returns the value of webhook-signature: one signature for each key, so that a receiver that knows one of them can check it.
func signatures(keys [][]byte, id string, timestamp int64, body []byte) string {
	var value strings.Builder
	for i, key := range keys {
		if i > 0 {
			value.WriteByte(' ')
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id))
		mac.Write([]byte{'.'})
		mac.Write(strconv.AppendInt(nil, timestamp, 10))
		mac.Write([]byte{'.'})
		mac.Write(body)
		value.WriteString("v1,")
		value.WriteString(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return value.String()
}
