package clock_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	docFile = regexp.MustCompile("`((?:clock|cmd|deploy|preload|queries|ring|schema|store)/[a-z0-9_/.-]+\\.(?:go|sql|yaml))`")
	docTest = regexp.MustCompile("`(Test[A-Z][A-Za-z]+)`")
	docLink = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// soakPrefix begins the names of the slow tests.
const soakPrefix = "TestSoak"

// TestDocumentsNameWhatExists demands that each file, test and linked page that a document names is there.
func TestDocumentsNameWhatExists(t *testing.T) {
	root := moduleRoot(t)
	tests := testNames(t, root)
	documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(documents) == 0 {
		t.Fatalf("%d documents, %v", len(documents), err)
	}
	for _, name := range append(documents, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range docFile.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s: %v", name, m[1], err)
			}
		}
		for _, m := range docLink.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
		for _, m := range docTest.FindAllStringSubmatch(string(text), -1) {
			if !tests[m[1]] && m[1] != soakPrefix {
				t.Errorf("%s names the test %s, which does not exist", name, m[1])
			}
		}
	}
}

// testNames returns the names of all top-level tests of the module.
func testNames(t *testing.T, root string) map[string]bool {
	t.Helper()
	names, declared := map[string]bool{}, regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(t \*testing\.T\)`)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			names[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
