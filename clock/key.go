package clock

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Key identifies an alarm. Keys are unique and compared byte for byte.
type Key struct {
	Application string // tenant and routing key
	BusinessID  string // the application's own id
}

// Shard returns the key's shard, from 0 to count-1. The hash (FNV-1a, 64 bits, over application, a zero byte and
// business id, folded to 32 bits) is stored with every alarm and must never change.
func (k Key) Shard(count int) int {
	h := fnv1a(fnvOffset, k.Application)
	h *= fnvPrime // the zero byte
	h = fnv1a(h, k.BusinessID)
	return int((uint32(h>>32) ^ uint32(h)) % uint32(count))
}

// FNV-1a as in hash/fnv. That package would allocate memory for each key.
const (
	fnvOffset uint64 = 14695981039346656037
	fnvPrime  uint64 = 1099511628211
)

func fnv1a(h uint64, s string) uint64 {
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return h
}

// Compare orders keys by application, then by business id, byte for byte. All transactions lock keys in this order.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.Application, other.Application), strings.Compare(k.BusinessID, other.BusinessID))
}

// Validate returns an ErrInvalid that names the offending part of the key, or nil.
func (k Key) Validate() error {
	if err := ValidateApplication(k.Application); err != nil {
		return err
	}
	return ValidateBusinessID(k.BusinessID)
}

// Bounds of a key's parts, in bytes. They are part of the contract.
const (
	MaxApplication = 64
	MaxBusinessID  = 128
)

// nameRule is the rule of isName, for messages.
const nameRule = "1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit"

// ValidateName demands the same of another name. what is the thing that it names, for the message.
func ValidateName(field, what, name string) error {
	if !isName(name) {
		return invalid(CodeInvalidValue, field, what+" must be "+nameRule)
	}
	return nil
}

// isName reports whether s is the name of an application or of a destination.
func isName(s string) bool {
	ok := s != "" && len(s) <= MaxApplication
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = alnum || i > 0 && strings.IndexByte("._-", c) >= 0
	}
	return ok
}

// ValidateApplication demands 1 to 64 characters of A-Z a-z 0-9 . _ - that begin with a letter or digit.
func ValidateApplication(s string) error {
	if !isName(s) {
		return invalid(CodeInvalidApplication, "application", "application must be "+nameRule)
	}
	return nil
}

// ValidateBusinessID demands 1 to 128 bytes of UTF-8 without control characters and without blanks at either end. "."
// and ".." are invalid too.
func ValidateBusinessID(s string) error {
	switch {
	case s == "" || len(s) > MaxBusinessID:
		return invalid(CodeInvalidBusinessID, "business_id",
			fmt.Sprintf("business_id must be 1 to %d bytes, not %d", MaxBusinessID, len(s)))
	case !utf8.ValidString(s):
		return invalid(CodeInvalidBusinessID, "business_id", "business_id must be UTF-8")
	case s == "." || s == "..":
		return invalid(CodeInvalidBusinessID, "business_id", `business_id must not be "." or ".."`)
	case strings.TrimSpace(s) != s:
		return invalid(CodeInvalidBusinessID, "business_id", "business_id must not begin or end with a blank")
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid(CodeInvalidBusinessID, "business_id", "business_id must not contain control characters")
	}
	return nil
}
