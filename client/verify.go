package client

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook, as Standard Webhooks says (https://www.standardwebhooks.com).
const (
	headerWebhookID        = "Webhook-Id"
	headerWebhookTimestamp = "Webhook-Timestamp"
	headerWebhookSignature = "Webhook-Signature"
)

// Faults of a request that is no valid webhook. They do not tell the secret or the right signature.
var (
	ErrWebhookHeaders   = errors.New("the request has not the headers of a webhook: webhook-id, webhook-timestamp and webhook-signature")
	ErrWebhookTime      = errors.New("the webhook is too old or too new") // its time differs from now by more than the tolerance
	ErrWebhookSignature = errors.New("no signature of the webhook fits")
)

// errSecret does not repeat the secret.
var errSecret = errors.New("a secret must be whsec_ and 24 to 64 bytes in base64")

// Verifier checks the signatures of webhooks. It is safe for concurrent use.
type Verifier struct {
	keys      [][]byte
	tolerance time.Duration
}

// DefaultTolerance is the tolerance of a new Verifier.
const DefaultTolerance = 5 * time.Minute

// NewVerifier returns a verifier of webhooks that were signed with any of the secrets. Give it the old and the new
// secret while a secret is changed. A secret is as `clockd application` prints it: whsec_ and base64.
func NewVerifier(secrets ...string) (*Verifier, error) {
	if len(secrets) == 0 {
		return nil, errors.New("a verifier needs at least one secret")
	}
	v := &Verifier{tolerance: DefaultTolerance}
	for i, secret := range secrets {
		key, err := secretKey(secret)
		if err != nil {
			return nil, fmt.Errorf("secret %d: %w", i+1, err)
		}
		v.keys = append(v.keys, key)
	}
	return v, nil
}

// secretKey returns the key of a secret.
func secretKey(secret string) ([]byte, error) {
	const shortest, longest = 24, 64 // bytes
	encoded, prefixed := strings.CutPrefix(secret, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || !prefixed || len(key) < shortest || len(key) > longest {
		return nil, errSecret
	}
	return key, nil
}

// WithTolerance returns a verifier that takes webhooks whose time differs from now by at most d, before or after.
func (v *Verifier) WithTolerance(d time.Duration) *Verifier {
	return &Verifier{keys: v.keys, tolerance: d}
}

// Verify returns nil if the request with these headers and this body was signed with one of the secrets, within the
// tolerance. body must be the bytes as they came. The error is ErrWebhookHeaders, ErrWebhookTime or
// ErrWebhookSignature; respond to each with 401.
//
// The signature covers webhook-id, webhook-timestamp and the body. It does not cover the other headers: take what the
// work depends on from the message id or the body. The body of an envelope has all of the ring (`--webhook
// body=envelope`); unmarshal it into a Ring. A valid request may come again with the same webhook-id: handle each id
// once.
func (v *Verifier) Verify(header http.Header, body []byte) error {
	id, timestamp, signatures := header.Get(headerWebhookID), header.Get(headerWebhookTimestamp), header.Get(headerWebhookSignature)
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	// an id of more parts may be another id and its time, of which the rest is in the body
	if id == "" || strings.Count(id, ".") > 2 || signatures == "" || err != nil {
		return ErrWebhookHeaders
	}
	if age := time.Since(time.Unix(seconds, 0)); age > v.tolerance || age < -v.tolerance {
		return ErrWebhookTime
	}
	for _, key := range v.keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		if hasSignature(signatures, mac.Sum(nil)) {
			return nil
		}
	}
	return ErrWebhookSignature
}

// hasSignature reports whether a signature of the kind v1 is in the list. Others may be of later kinds.
func hasSignature(list string, want []byte) bool {
	for signature := range strings.SplitSeq(list, " ") {
		encoded, isV1 := strings.CutPrefix(signature, "v1,")
		if !isV1 {
			continue
		}
		if got, err := base64.StdEncoding.DecodeString(encoded); err == nil && hmac.Equal(got, want) {
			return true
		}
	}
	return false
}
