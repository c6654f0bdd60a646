package clock_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestFewLinesAreLong demands that at most one line in a hundred of the written Go has more than 120 columns, with tabs
// of 4 columns. Long texts of tables and errors may have one line.
func TestFewLinesAreLong(t *testing.T) {
	const columns = 120
	lines, long := 0, map[string]int{}
	err := filepath.WalkDir(moduleRoot(t), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil || bytes.HasPrefix(source, []byte("// Code generated")) {
			return err
		}
		for line := range strings.Lines(string(source)) {
			lines++
			if utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > columns+1 { // with the line's end
				long[path]++
			}
		}
		return nil
	})
	sum := 0
	for _, n := range long {
		sum += n
	}
	if err != nil || lines == 0 || 100*sum > lines {
		t.Errorf("%d of %d lines have more than %d columns, %v: %v", sum, lines, columns, err, long)
	}
}
