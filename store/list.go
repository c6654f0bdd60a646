package store

import (
	"strings"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

// MaxKeys bounds the ids that one statement of clock.Store.Keys asks for.
const MaxKeys = 500

// beyond is greater than every business id.
var beyond = strings.Repeat(string(utf8.MaxRune), clock.MaxBusinessID)

// PrefixEnd returns the least string that is greater than all business ids with the prefix, so that a list by prefix is a
// range of the index; the order of bytes is the order of runes.
func PrefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if next := last + 1; next <= utf8.MaxRune {
			if !utf8.ValidRune(next) { // the surrogates
				next = 0xE000
			}
			return prefix + string(next)
		}
	}
	return beyond
}
