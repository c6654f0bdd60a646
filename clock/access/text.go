package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
)

// Text is the text of a token: clockd_ID_SECRETCHECKSUM. The checksum lets scanners tell a leaked token from any other
// text.
type Text struct {
	ID     string // names the record; not secret
	Secret string
}

const (
	prefix = "clockd_"
	digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	// idDigits is the length of an id.
	idDigits = 12
	// secretDigits is the length of a secret: 62^43 is more than 2^256.
	secretDigits = 43
	// sumDigits is the length of a checksum: 62^6 is more than 2^32.
	sumDigits = 6
	// textBytes is the length of a whole text.
	textBytes = len(prefix) + idDigits + 1 + secretDigits + sumDigits
)

// ErrText is the error for a text that is no token. It does not quote the text, because the text may be a secret.
var ErrText = errors.New("this is not a token of clockd: a token is clockd_ID_SECRET, and its last 6 characters are a checksum")

// NewText returns a new token.
func NewText() Text { return Text{ID: random(idDigits), Secret: random(secretDigits)} }

// ParseText reads the text of a token. It returns ErrText for every other text.
func ParseText(s string) (Text, error) {
	if len(s) != textBytes || !strings.HasPrefix(s, prefix) || s[len(prefix)+idDigits] != '_' {
		return Text{}, ErrText
	}
	body, sum := s[:textBytes-sumDigits], s[textBytes-sumDigits:]
	t := Text{ID: body[len(prefix) : len(prefix)+idDigits], Secret: body[len(prefix)+idDigits+1:]}
	if !isBase62(t.ID) || !isBase62(t.Secret) || sum != checksum(body) {
		return Text{}, ErrText
	}
	return t, nil
}

// String returns the text, with its secret. It must not be logged.
func (t Text) String() string {
	body := prefix + t.ID + "_" + t.Secret
	return body + checksum(body)
}

// Hash is the SHA-256 of a secret. The zero Hash is the hash of no secret.
type Hash [sha256.Size]byte

// Hash returns the hash of the secret.
func (t Text) Hash() Hash { return sha256.Sum256([]byte(t.Secret)) }

// Matches reports in constant time whether both hashes are equal. The zero Hash matches none.
func (h Hash) Matches(other Hash) bool {
	return h != Hash{} && subtle.ConstantTimeCompare(h[:], other[:]) == 1
}

// Encode returns the hash in hexadecimal digits, "" for the zero Hash.
func (h Hash) Encode() string {
	if h == (Hash{}) {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// errHash is the error for a stored hash that cannot be read.
var errHash = errors.New("the hash of the secret is not 64 hexadecimal digits")

// ParseHash reads what Encode returns.
func ParseHash(s string) (h Hash, err error) {
	if s == "" {
		return h, nil
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		return Hash{}, errHash
	}
	return Hash(b), nil
}

// random returns n random digits. Bytes that would make some digits more likely are left out.
func random(n int) string {
	const even = 256 - 256%len(digits)
	text := make([]byte, 0, n)
	for len(text) < n {
		var b [64]byte
		_, _ = rand.Read(b[:]) // never fails
		for _, x := range b {
			if int(x) < even && len(text) < n {
				text = append(text, digits[int(x)%len(digits)])
			}
		}
	}
	return string(text)
}

// checksum returns the CRC-32 of s in base62.
func checksum(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	var text [sumDigits]byte
	for i := len(text) - 1; i >= 0; i-- {
		text[i] = digits[sum%uint32(len(digits))]
		sum /= uint32(len(digits))
	}
	return string(text[:])
}

// isBase62 reports whether s has only digits of base62.
func isBase62(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(digits, r) })
}
