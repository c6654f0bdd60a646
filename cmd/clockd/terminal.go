package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf16"
)

// stdout and stderr are for output that may contain business ids, reasons and names.
var (
	stdout = terminal{os.Stdout}
	stderr = terminal{os.Stderr}
)

// terminal writes text for people. Any client may choose business ids, reasons and names, so terminal writes control
// and format characters as \u escapes. None of them can then move the cursor, set a title or reverse text. In JSON the
// escapes mean the same.
type terminal struct{ io.Writer }

// Write escapes p and writes all of it. A character must not be split between two calls.
func (t terminal) Write(p []byte) (int, error) {
	if _, err := io.WriteString(t.Writer, printable(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// printable returns s with all characters escaped on which a terminal may act. Line breaks and tabs stay.
func printable(s string) string {
	if strings.IndexFunc(s, actsOnTerminal) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !actsOnTerminal(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// oneLine returns s with its line breaks and tabs as blanks, for a text that somebody else wrote and a line of a list.
func oneLine(s string) string { return strings.NewReplacer("\n", " ", "\t", " ").Replace(s) }

// actsOnTerminal reports whether a terminal may act on the character instead of showing it.
func actsOnTerminal(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp))
}
