package console

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func open(t *testing.T) *Console {
	t.Helper()
	c, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// get requests a file. headers are "Name: value".
func get(c *Console, name string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.URL.Path = name
	for _, h := range headers {
		key, value, _ := strings.Cut(h, ": ")
		r.Header.Set(key, value)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func TestEveryFileIsServedWithItsHeaders(t *testing.T) {
	c := open(t)
	if len(c.files) < 10 {
		t.Fatalf("only %d files", len(c.files))
	}
	for name := range c.files {
		w := get(c, name)
		if w.Code != http.StatusOK || w.Body.Len() == 0 {
			t.Errorf("%s: %d with %d bytes", name, w.Code, w.Body.Len())
		}
		for header, want := range map[string]string{
			"Content-Type": contentTypes[name[strings.LastIndexByte(name, '.'):]], "Content-Security-Policy": policy,
			"X-Content-Type-Options": "nosniff",
			"Referrer-Policy":        "no-referrer", "Cache-Control": "no-cache",
		} {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", name, header, got, want)
			}
		}
	}
}

func TestPolicyAllowsFilesOfThisServerAlone(t *testing.T) {
	for _, want := range []string{"default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy lacks %s", want)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") {
		t.Errorf("the policy is %s", policy)
	}
}

func TestFileWithTheSameEntityTagIsNotSentAgain(t *testing.T) {
	c := open(t)
	first, other := get(c, ""), get(c, "app.js")
	tag := first.Header().Get("ETag")
	if tag == "" || tag == other.Header().Get("ETag") {
		t.Fatalf("entity tags %q and %q", tag, other.Header().Get("ETag"))
	}
	if w := get(c, "", "If-None-Match: "+tag); w.Code != http.StatusNotModified || w.Body.Len() > 0 ||
		w.Header().Get("Content-Security-Policy") == "" {
		t.Errorf("%d with %d bytes and the headers %v", w.Code, w.Body.Len(), w.Header())
	}
	if w := get(c, "app.js", "If-None-Match: "+tag); w.Code != http.StatusOK {
		t.Errorf("the tag of another file: %d", w.Code)
	}
}

func TestOtherFilesAreNotFound(t *testing.T) {
	c := open(t)
	for _, name := range []string{"x.js", "../doc.go", "assets/app.js", "/app.js", "app.js/"} {
		if w := get(c, name); w.Code != http.StatusNotFound || w.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
}

var (
	imported  = regexp.MustCompile(`(?m)^import .*from '\./([^']+)';$`)
	linked    = regexp.MustCompile(`(?:src|href)="([^"?#]*)[?#"]`)
	elsewhere = regexp.MustCompile(`(?:https?:)?//[a-z0-9]`)
	unsafe    = regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc`)
	inline    = regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:`)
)

// TestFilesFindEachOther demands that each file is used, and that each used file is there.
func TestFilesFindEachOther(t *testing.T) {
	c := open(t)
	used := map[string]bool{index: true}
	for name, f := range c.files {
		for _, m := range append(imported.FindAllStringSubmatch(string(f.content), -1), linked.FindAllStringSubmatch(string(f.content), -1)...) {
			if m[1] == "" {
				continue
			}
			used[m[1]] = true
			if c.files[m[1]] == nil {
				t.Errorf("%s uses %s, which is not there", name, m[1])
			}
		}
	}
	for name := range c.files {
		if !used[name] {
			t.Errorf("no file uses %s", name)
		}
	}
}

// TestFilesAskNoOtherHostAndInsertNoHTML looks for what the policy forbids, and for ways from data to HTML.
func TestFilesAskNoOtherHostAndInsertNoHTML(t *testing.T) {
	for name, f := range open(t).files {
		text := string(f.content)
		for _, namespace := range []string{"http://www.w3.org/2000/svg"} {
			text = strings.ReplaceAll(text, namespace, "")
		}
		for _, forbidden := range []*regexp.Regexp{elsewhere, unsafe} {
			if found := forbidden.FindString(text); found != "" {
				t.Errorf("%s has %q", name, found)
			}
		}
		if found := inline.FindString(text); strings.HasSuffix(name, ".html") && found != "" {
			t.Errorf("%s has %q", name, found)
		}
	}
}
