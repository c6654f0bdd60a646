package engine

import (
	"strings"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

// afterAllBusinessIDs is greater than every business id.
var afterAllBusinessIDs = strings.Repeat(string(utf8.MaxRune), clock.MaxBusinessID)

// prefixEnd returns the smallest string that is greater than all business ids with the prefix. With it a list by prefix reads one range
// of the index. The order of bytes is the order of runes.
func prefixEnd(prefix string) string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if next := last + 1; next <= utf8.MaxRune {
			if !utf8.ValidRune(next) { // surrogates are no valid runes
				next = 0xE000
			}
			return prefix + string(next)
		}
	}
	return afterAllBusinessIDs
}
