package clock_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFewLinesAreLong demands that at most one line in a hundred of the written Go has more than 120 columns, with tabs
// of 4 columns. Long texts of tables and errors may have one line.
func TestFewLinesAreLong(t *testing.T) {
	const columns = 120
	lines, long := 0, map[string]int{}
	eachGoFile(t, moduleRoot(t), func(path string, source []byte) {
		if bytes.HasPrefix(source, []byte("// Code generated")) {
			return
		}
		for line := range strings.Lines(string(source)) {
			lines++
			if utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > columns+1 { // with the line's end
				long[path]++
			}
		}
	})
	sum := 0
	for _, n := range long {
		sum += n
	}
	if lines == 0 || 100*sum > lines {
		t.Errorf("%d of %d lines have more than %d columns: %v", sum, lines, columns, long)
	}
}
