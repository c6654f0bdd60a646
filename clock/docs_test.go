package clock_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	docFile = regexp.MustCompile("`((?:clock|cmd|deploy|preload|queries|ring|schema|store)/[a-z0-9_/.-]+\\.(?:go|sql|yaml))`")
	docTest = regexp.MustCompile("`(Test[A-Z][A-Za-z]+)`")
	docLink = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)

	docHeading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	docFence   = regexp.MustCompile("(?s)```.*?```")
)

// soakPrefix begins the names of the slow tests.
const soakPrefix = "TestSoak"

// TestDocumentsNameWhatExists demands that each file, test, linked page and linked heading that a document names is
// there.
func TestDocumentsNameWhatExists(t *testing.T) {
	root := moduleRoot(t)
	tests := testNames(t, root)
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/targets/*.md", "examples/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d documents, %v", pattern, len(found), err)
		}
		documents = append(documents, found...)
	}
	for _, name := range documents {
		text := readDocument(t, name)
		for _, m := range docFile.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s: %v", name, m[1], err)
			}
		}
		for _, m := range docLink.FindAllStringSubmatch(text, -1) {
			page := name
			if m[1] != "" {
				page = filepath.Join(filepath.Dir(name), m[1])
			}
			if _, err := os.Stat(page); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			} else if m[2] != "" && strings.HasSuffix(page, ".md") &&
				!slices.Contains(anchors(readDocument(t, page)), m[2]) {
				t.Errorf("%s links to %s#%s: the page has no such heading", name, m[1], m[2])
			}
		}
		for _, m := range docTest.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] && m[1] != soakPrefix {
				t.Errorf("%s names the test %s, which does not exist", name, m[1])
			}
		}
	}
}

// readDocument returns the text of a document.
func readDocument(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// anchors returns the names by which links lead to the headings of a document. A comment in code is no heading.
func anchors(text string) (names []string) {
	for _, m := range docHeading.FindAllStringSubmatch(docFence.ReplaceAllString(text, ""), -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return names
}

// testNames returns the names of all top-level tests of the module.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	names, declared := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
	eachGoFile(t, root, func(path string, source []byte) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			names[m[1]] = true
		}
	})
	return names
}
